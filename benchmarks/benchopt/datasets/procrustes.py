"""Orthogonal Procrustes problems of one agent, Gaussian."""

from typing import ClassVar

import numpy as np
from benchopt import BaseDataset

from decentorth.problems import Procrustes


class Dataset(BaseDataset):
    name = "procrustes"
    parameters: ClassVar = {"samples, n, p": [(200, 50, 20), (2000, 500, 100)]}

    def get_data(self):
        rng = np.random.default_rng(0)
        A, B = (
            rng.standard_normal((self.samples, self.n)),
            rng.standard_normal((self.p, self.samples)),
        )
        return {"problem": Procrustes([A], [B]), "W": None}
