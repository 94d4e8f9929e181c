"""The report of the constants as lines: symbol, number and meaning."""

from __future__ import annotations

from collections.abc import Iterator

from ...theory.constants import Constants
from ...theory.meanings import MEANINGS
from ...theory.measured import Measured

_KINDS = {"exact": "are exact", "bound": "are proved bounds", "sampled": "and L are sampled, perhaps too small"}


def table(c: Constants, step: float, name: str) -> Iterator[str]:
    """The lines on the constants, and on a practical step called ``name``."""
    for field, (symbol, meaning) in MEANINGS.items():
        if field != "smoothness_quadratic" or c.kind != "sampled":
            yield f"{symbol:<15} {getattr(c, field):<10.4g} {meaning}"
    compared = f"{step / c.guaranteed:.2g} times the guaranteed, {step / c.stable:.2g} times alpha_stable"
    yield f"{'practical':<15} {step:<10.4g} {name}: {compared}"
    yield f"(sup ||G|| and s {_KINDS[c.kind]})"


def beside(measured: Measured, step: float, *, guaranteed: bool) -> Iterator[str]:
    """The lines on a measured run; the bounds hold only for a guaranteed step."""
    bounded = "" if guaranteed else ", for which no bound holds"
    yield f"a run of {measured.iterations} iterations with step {step:.3g}{bounded}:"
    means = {"||Lambda(xbar)||^2": (measured.field, measured.field_bound)}
    means["||x - xbar||^2"] = measured.consensus, measured.consensus_bound
    for name, (mean, bound) in means.items():
        words = ""
        if guaranteed:
            words = f", bound {bound:.4g}: {bound / mean:.2g} times as much"
        yield f"  mean {name:<22} {mean:.4g}{words}"
    change = measured.merit[-1] - measured.merit[0]
    yield f"  merit function              {measured.merit[0]:.10g}, changed by {change:.4g}"
    yield f"  largest ||x_i^T x_i - I||_F {measured.feasibility:.4g}"
