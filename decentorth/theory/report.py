"""The report of the constants as lines: symbol, number and meaning."""

from __future__ import annotations

from collections.abc import Iterator

from .constants import Constants
from .measured import Measured

_KINDS = {"exact": "exact", "bound": "proved bound", "sampled": "sampled, so too small if anything"}


def table(c: Constants, step: float, name: str) -> Iterator[str]:
    """The lines on the constants, and on a practical step called ``name``."""
    kind = _KINDS[c.kind]
    lipschitz = "sampled" if c.kind == "sampled" else "exact"
    rows = (
        ("sigma_W", c.sigma, f"second largest singular value of W; the gap is {1.0 - c.sigma:.4g}"),
        ("lambda", c.penalty, "weight of the penalty in the landing field"),
        ("eps", c.eps, "the safety region is ||x^T x - I||_F <= eps (6)"),
        ("L", c.lipschitz, f"Lipschitz constant of the gradients, largest of all agents ({lipschitz})"),
        ("sup ||G||", c.gradient, f"largest Euclidean gradient on the region ({kind})"),
        ("s", c.symmetric, f"sup ||sym(x^T G)||_F on the region ({kind})"),
        ("Lhat", c.largest, "max(L, sup ||G||) (9)"),
        ("G", c.field, "(1 + eps) sup ||G||, bounds the relative gradient skew(G x^T) x"),
        ("gamma", c.gamma, "weight of p in the merit function (9)"),
        ("nu", c.nu, "lambda gamma"),
        ("L'", c.smoothness, "smoothness of the merit function, as printed (Prop. III.3)"),
        ("L' proved", c.smoothness_quadratic, "the same, proved for quadratic f_i; the printed one can be too small"),
        ("L_Lambda", c.field_lipschitz, "Lipschitz constant of the landing field (proved; the paper takes L')"),
        ("rho", c.rho, "descent: <Lambda, grad of the merit function> >= rho ||Lambda||^2 (Prop. III.3)"),
        ("C", c.ratio, "2 L'/(lambda (1 - eps)) + 1 (Lemma IV.6)"),
        ("alpha_safe", c.safe, "stays in the region up to this step (Prop. IV.1, (17))"),
        ("alpha_stable", c.stable, "consensus errors contract below it (Theorem IV.4, sufficient)"),
        ("alpha_limit", c.limit, "where the matrix of Theorem IV.4 reaches spectral radius 1"),
        ("alpha_repaired", c.repaired, "the same with ||W - I|| where Lemma IV.3 errs, and L_Lambda in place of L'"),
        ("alpha_IV.7", c.ergodic, "ergodic rate O(1/K) up to this step (Theorem IV.7)"),
        ("alpha_VI.8", c.appendix, "rho / (8 L'), which only the appendix's restatement asks for as well"),
        ("guaranteed", c.guaranteed, "the least of safe, stable, IV.7 and VI.8"),
        (
            "practical",
            step,
            f"{name}: {step / c.guaranteed:.2g} times the guaranteed, {step / c.stable:.2g} times alpha_stable",
        ),
    )
    for symbol, number, meaning in rows:
        if symbol == "L' proved" and c.kind == "sampled":
            continue
        yield f"{symbol:<15} {number:<10.4g} {meaning}"


def beside(measured: Measured, step: float, *, guaranteed: bool) -> Iterator[str]:
    """The lines on a measured run; the bounds hold only for a guaranteed step."""
    yield f"a run of {measured.iterations} iterations with step {step:.3g}{'' if guaranteed else ', for which no bound holds'}:"
    means = (
        ("||Lambda(xbar)||^2", measured.field, measured.field_bound),
        ("||x - xbar||^2", measured.consensus, measured.consensus_bound),
    )
    for name, mean, bound in means:
        words = f", bound {bound:.4g}: {bound / mean:.2g} times as much" if guaranteed else ""
        yield f"  mean {name:<22} {mean:.4g}{words}"
    change = measured.merit[-1] - measured.merit[0]
    yield f"  merit function              {measured.merit[0]:.10g}, changed by {change:.4g}"
    yield f"  largest ||x_i^T x_i - I||_F {measured.feasibility:.4g}"
