"""The registries of algorithms and problems by their names on the command line and in files; `register` adds a user's own."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal


class Registry:
    """A mapping of names to frozen dataclasses; a built-in entry is an import path, imported when first used."""

    def __init__(self, kind: str, places: dict[str, tuple[str, str]]) -> None:
        self.kind = kind
        self._places = places
        self._entries: dict[str, type[Any]] = {}

    def names(self) -> tuple[str, ...]:
        """All known names, sorted."""
        return tuple(sorted({*self._places, *self._entries}))

    def get(self, name: str) -> type[Any]:
        """The dataclass called ``name`` (case and dashes do not matter).

        Raises
        ------
        ValueError
            When the name is unknown; the message gives the nearest name and the list.
        """
        key = name.lower().replace("-", "_")
        if key in self._entries:
            return self._entries[key]
        if key in self._places:
            module, attribute = self._places[key]
            self._entries[key] = getattr(import_module(module), attribute)
            return self._entries[key]
        near = difflib.get_close_matches(key, self.names(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown {self.kind} {name!r}{hint} Known: {', '.join(self.names())}")

    def add(self, name: str, entry: type[Any]) -> None:
        """Add a user's own dataclass under a new name."""
        key = name.lower().replace("-", "_")
        if not (dataclasses.is_dataclass(entry) and isinstance(entry, type)):
            raise TypeError(f"{self.kind} {name!r} must be a dataclass (its fields become flags), got {entry!r}")
        if key in self._places or key in self._entries:
            raise ValueError(f"there is already a {self.kind} called {key!r}")
        self._entries[key] = entry


algorithms = Registry(
    "algorithm",
    {
        "cdadt": ("decentorth.algorithms.cdadt", "CDADT"),
        "deepca": ("decentorth.algorithms.deepca", "DeEPCA"),
        "destiny": ("decentorth.algorithms.destiny", "DESTINY"),
        "dgd": ("decentorth.algorithms.dgd", "DGD"),
        "dprgd": ("decentorth.algorithms.dprgd", "DPRGD"),
        "dprgt": ("decentorth.algorithms.dprgt", "DPRGT"),
        "drfgt": ("decentorth.algorithms.drfgt", "DRFGT"),
        "drgta": ("decentorth.algorithms.drgta", "DRGTA"),
        "drsgd": ("decentorth.algorithms.drsgd", "DRSGD"),
        "drsm": ("decentorth.algorithms.drsm", "DRSM"),
        "gradient_tracking": ("decentorth.algorithms.gradient_tracking", "GradientTracking"),
        "landing": ("decentorth.algorithms.landing", "Landing"),
        "generalized_drfgt": ("decentorth.algorithms.generalized_drfgt", "GeneralizedDRFGT"),
        "generalized_landing": ("decentorth.algorithms.generalized_landing", "GeneralizedLanding"),
        "pcal": ("decentorth.algorithms.pcal", "PCAL"),
        "plam": ("decentorth.algorithms.plam", "PLAM"),
        "rgd": ("decentorth.algorithms.rgd", "RGD"),
        "rextra": ("decentorth.algorithms.rextra", "REXTRA"),
        "rsm": ("decentorth.algorithms.rsm", "RSM"),
        "rssm": ("decentorth.algorithms.rssm", "RSSM"),
        "rfextra": ("decentorth.algorithms.rfextra", "RFEXTRA"),
        "gs_jobcd": ("decentorth.algorithms.gs_jobcd", "GSJOBCD"),
        "j_jobcd": ("decentorth.algorithms.j_jobcd", "JJOBCD"),
        "vr_j_jobcd": ("decentorth.algorithms.vr_j_jobcd", "VRJJOBCD"),
        "hyperbolic_jacobi": ("decentorth.algorithms.hyperbolic_jacobi", "HyperbolicJacobi"),
        "csdm": ("decentorth.algorithms.csdm", "CSDM"),
        "jadmm": ("decentorth.algorithms.jadmm", "JADMM"),
        "umcm": ("decentorth.algorithms.umcm", "UMCM"),
    },
)
problems = Registry(
    "problem",
    {
        "cca": ("decentorth.problems.views", "CCASettings"),
        "procrustes": ("decentorth.problems.procrustes", "ProcrustesSettings"),
        "ica": ("decentorth.problems.ica", "ICASettings"),
        "gevp": ("decentorth.problems.gevp", "GEVPSettings"),
        "lda": ("decentorth.problems.lda", "LDASettings"),
        "matrix_completion": ("decentorth.problems.matrix_completion", "MatrixCompletionSettings"),
        "pca": ("decentorth.problems.pca", "PCASettings"),
        "hevp": ("decentorth.problems.hevp", "HEVPSettings"),
        "hspp": ("decentorth.problems.hspp", "HSPPSettings"),
        "l1_pca": ("decentorth.problems.l1", "L1PCASettings"),
        "odl": ("decentorth.problems.odl", "ODLSettings"),
        "rsr": ("decentorth.problems.rsr", "RSRSettings"),
        "sparse_pca": ("decentorth.problems.l1", "SparsePCASettings"),
        "ultrae": ("decentorth.problems.ultrae", "UltraESettings"),
    },
)


def register(name: str, *, kind: Literal["algorithm", "problem"]) -> Callable[[type[Any]], type[Any]]:
    """A class decorator that makes a dataclass available on the command line and in files under ``name``.

    An algorithm is a frozen dataclass with ``init`` and ``step`` (see ``algorithms/_template.py``); a problem is a frozen
    dataclass of settings with a method ``problem(n_agents, seed)``.
    """

    def enter(entry: type[Any]) -> type[Any]:
        (algorithms if kind == "algorithm" else problems).add(name, entry)
        return entry

    return enter
