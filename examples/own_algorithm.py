"""
How do I write my own method?
=============================

A method of one's own, by name on the command line.

`decentorth new algorithm NAME` writes such a file for a method from its
equations, with tests. This one varies a method that there is. Every command
takes it as a plugin, and the file is a command itself::

    python -m decentorth.run --plugin examples/own_algorithm.py \\
        --problem pca --rank 3 --algorithm damped_drfgt --damping 0.5
    python examples/own_algorithm.py --problem pca --rank 3 \\
        --algorithm damped_drfgt --damping 0.5 --iterations 500

Explained in ``docs/own_method.md``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import decentorth as do
from decentorth.algorithms import DRFGT

# %%
# The method
# ----------
#
# The decorator gives it a name for the command line.


@do.register("damped_drfgt", kind="algorithm")
@dataclass(frozen=True, kw_only=True)
class DampedDRFGT(DRFGT):
    """DRFGT whose step sizes are multiplied by a factor.

    Parameters
    ----------
    damping
        The factor, in (0, 1].
    """

    damping: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.damping <= 1.0:
            raise ValueError(f"damping must lie in (0, 1], got {self.damping}")

    def init(
        self, problem: Any, network: Any, streams: Any, x0: np.ndarray
    ) -> Any:
        state = super().init(problem, network, streams, x0)
        return state._replace(step_size=self.damping * state.step_size)


# %%
# The command
# -----------

if __name__ == "__main__":
    from decentorth.run import main

    raise SystemExit(main())
