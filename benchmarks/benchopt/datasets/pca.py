"""Principal components of Gaussian samples whose standard deviations fall as a geometric
progression, one agent."""

from typing import ClassVar

import numpy as np
from benchopt import BaseDataset

from decentorth.problems import PCA


class Dataset(BaseDataset):
    name = "pca"
    parameters: ClassVar = {"samples, n, p": [(1000, 50, 5), (10_000, 784, 10)]}

    def get_data(self):
        rng = np.random.default_rng(0)
        return {
            "problem": PCA(
                [rng.standard_normal((self.samples, self.n)) * 0.98 ** np.arange(self.n)], self.p
            ),
            "W": None,
        }
