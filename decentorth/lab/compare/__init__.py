"""Fair comparison of methods: the same problems, starts, graphs and seeds, the same budget for
tuning, and every cost to every tolerance, with modelled wall time on named networks.

    from decentorth.lab.compare import Rules, compare

    rules = Rules(tune=True, trials=5)
    comparison = compare(problem, "drfgt,drgta", W, rules, networks="lan,wan")
    print(comparison)
    comparison.save("comparison")  # `load` reads it back
    more = compare(problem, "drgta", W, extending=comparison)
    more.plot(x="bytes", width="column", band="quartiles")

``python -m decentorth compare`` is the same from the command line.
"""

from ..._lazy import lazily
from .comparison import Comparison as Comparison
from .comparison import load as load
from .comparison_plan import ComparisonPlan as ComparisonPlan
from .comparison_plan import compare as compare
from .comparison_rules import Rules as Rules
from .counts import Line as Line
from .counts import MedianRange as MedianRange
from .model import NETWORKS as NETWORKS
from .model import NetworkModel as NetworkModel
from .model import wall_time as wall_time
from .tuning import Entry as Entry

__getattr__, __dir__ = lazily(__name__)
