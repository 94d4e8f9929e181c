"""Fair comparison of methods: the same problems, starts, graphs and seeds, the same budget for tuning, and every cost to every
tolerance, with modelled wall time on named networks.

    from decentorth.compare import Rules, compare, save, table

    comparison = compare(problem, "drfgt,drfgt:order=adapt-then-combine", W, Rules(tune=True, trials=5), networks="lan,wan")
    print(table(comparison))
    save(comparison, "comparison")

``python -m decentorth compare`` is the same from the command line.
"""

from .._lazy import lazily
from .comparison import Comparison as Comparison
from .comparison import Entry as Entry
from .comparison import Line as Line
from .comparison import MedianRange as MedianRange
from .figures import figure as figure
from .model import NETWORKS as NETWORKS
from .model import NetworkModel as NetworkModel
from .model import wall_time as wall_time
from .plan import ComparisonPlan as ComparisonPlan
from .plan import compare as compare
from .rules import Rules as Rules
from .tables import save as save
from .tables import table as table
from .words import notes as notes
from .words import title as title

__getattr__, __dir__ = lazily(__name__)
