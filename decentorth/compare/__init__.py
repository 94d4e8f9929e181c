"""Methods compared fairly: the same problems, starts, graphs and seeds, the same budget for tuning, and every cost to every
tolerance, with the wall time on networks that are named.

    from decentorth.compare import Rules, compare

    comparison = compare(problem, "drfgt,drfgt:order=adapt-then-combine", W, Rules(tune=True, trials=5), networks="lan,wan")
    print(comparison.table())
    comparison.save("comparison")

``python -m decentorth.compare`` is the same from the command line.
"""

from .comparison import Comparison, Entry, Line, Spread
from .contest import Contest, compare
from .model import NETWORKS, Elapsed, NetworkModel, elapsed, wall_time
from .rules import Rules

__all__ = [
    "NETWORKS",
    "Comparison",
    "Contest",
    "Elapsed",
    "Entry",
    "Line",
    "NetworkModel",
    "Rules",
    "Spread",
    "compare",
    "elapsed",
    "wall_time",
]
