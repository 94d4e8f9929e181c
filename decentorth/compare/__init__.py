"""Fair comparison of methods: the same problems, starts, graphs and seeds, the same budget for tuning, and every cost to every
tolerance, with modelled wall time on named networks.

    from decentorth.compare import Rules, compare, save, table

    comparison = compare(problem, "drfgt,drfgt:order=adapt-then-combine", W, Rules(tune=True, trials=5), networks="lan,wan")
    print(table(comparison))
    save(comparison, "comparison")

``python -m decentorth.compare`` is the same from the command line.
"""

from .comparison import Comparison, Entry, Line, MedianRange
from .figures import figure
from .model import NETWORKS, NetworkModel, wall_time
from .plan import ComparisonPlan, compare
from .rules import Rules
from .tables import save, table
from .words import notes, title

__all__ = [
    "NETWORKS",
    "Comparison",
    "ComparisonPlan",
    "Entry",
    "Line",
    "MedianRange",
    "NetworkModel",
    "Rules",
    "compare",
    "figure",
    "notes",
    "save",
    "table",
    "title",
    "wall_time",
]
