"""Ten agents on a graph: the problems and graphs of ``benchmarks/auto_steps.py``."""

from typing import ClassVar

from benchopt import BaseDataset

from benchmarks.auto_steps import GRAPHS, PROBLEMS


class Dataset(BaseDataset):
    name = "network"
    parameters: ClassVar = {
        "problem": ["Procrustes", "PCA, digits even", "PCA, digits by label"],
        "graph": list(GRAPHS),
    }

    def get_data(self):
        found = PROBLEMS[self.problem](0)
        if hasattr(found, "build"):
            from decentorth.api import set_up

            found = set_up(found, "drfgt", GRAPHS[self.graph](0), comm="serial").problem
        return {"problem": found, "W": GRAPHS[self.graph](0)}
