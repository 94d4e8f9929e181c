"""Seconds and certified gap of the fastest mixing weights, beside those of the package mixingmatrix
where it is installed.

    python benchmarks/fmmc.py [--limit SECONDS]

One line per graph and package: sigma, the gap to the certified lower bound (each package's own
certificate), seconds.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import time
import warnings
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

GRAPHS = ("ring:32", "grid:5x6", "watts_strogatz:30", "random_geometric:60")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds that mixingmatrix may take per graph"
    )
    limit = parser.parse_args().limit

    import topologies as tp

    peer: Any = (
        importlib.import_module("mixingmatrix")
        if importlib.util.find_spec("mixingmatrix")
        else None
    )
    warnings.simplefilter("ignore")
    print(f"{'graph':22}{'package':14}{'sigma':>14}{'certified gap':>15}{'seconds':>9}")
    for name in GRAPHS:
        graph = tp.graph_from_name(name)
        start = time.perf_counter()
        ours = tp.fastest_weights(graph)
        seconds = time.perf_counter() - start
        print(
            f"{name:22}{'topologies':14}{ours.sigma:14.9f}{ours.certified_gap:15.1e}{seconds:9.2f}",
            flush=True,
        )
        if peer is not None:
            start = time.perf_counter()
            theirs = peer.solve(graph, time_limit=limit)
            seconds = time.perf_counter() - start
            print(
                f"{'':22}{'mixingmatrix':14}{theirs.slem:14.9f}{theirs.certified_gap:15.1e}{seconds:9.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
