"""Objectives spread over agents, with their data and what is known about them."""

from ..sets import Stiefel
from .base import AgentProblem, Deferred
from .functions import FunctionProblem
from .hevp import HEVP, HEVPSettings
from .ica import ICA, ICASettings, amari_distance, log_cosh
from .matrix_completion import MatrixCompletion, MatrixCompletionSettings
from .pca import PCA, PCASettings, subspace_distance
from .procrustes import Procrustes, ProcrustesSettings

__all__ = [
    "HEVP",
    "ICA",
    "PCA",
    "AgentProblem",
    "Deferred",
    "FunctionProblem",
    "HEVPSettings",
    "ICASettings",
    "MatrixCompletion",
    "MatrixCompletionSettings",
    "PCASettings",
    "Procrustes",
    "ProcrustesSettings",
    "Stiefel",
    "amari_distance",
    "log_cosh",
    "subspace_distance",
]
