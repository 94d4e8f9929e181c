"""Objectives spread over agents, with their data and what is known about them."""

from ..sets import Stiefel
from .base import AgentProblem, Deferred
from .cca import CCA, CCASettings, canonical_correlations
from .functions import FunctionProblem
from .gevp import GEVP, GEVPSettings, pencil
from .hevp import HEVP, HEVPSettings
from .hspp import HSPP, HSPPSettings
from .ica import ICA, ICASettings, amari_distance, log_cosh
from .lda import LDASettings, scatters
from .matrix_completion import MatrixCompletion, MatrixCompletionSettings
from .pca import PCA, PCASettings, subspace_distance
from .procrustes import Procrustes, ProcrustesSettings
from .spread import Spread, SpreadProblem

__all__ = [
    "CCA",
    "GEVP",
    "HEVP",
    "HSPP",
    "ICA",
    "PCA",
    "AgentProblem",
    "CCASettings",
    "Deferred",
    "FunctionProblem",
    "GEVPSettings",
    "HEVPSettings",
    "HSPPSettings",
    "ICASettings",
    "LDASettings",
    "MatrixCompletion",
    "MatrixCompletionSettings",
    "PCASettings",
    "Procrustes",
    "ProcrustesSettings",
    "Spread",
    "SpreadProblem",
    "Stiefel",
    "amari_distance",
    "canonical_correlations",
    "log_cosh",
    "pencil",
    "scatters",
    "subspace_distance",
]
