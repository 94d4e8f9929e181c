"""Objectives spread over agents, with their data and what is known about them."""

from ..sets import Stiefel
from .base import AgentProblem, Deferred
from .functions import FunctionProblem
from .pca import PCA, PCASettings, subspace_distance
from .procrustes import Procrustes, ProcrustesSettings

__all__ = [
    "PCA",
    "AgentProblem",
    "Deferred",
    "FunctionProblem",
    "PCASettings",
    "Procrustes",
    "ProcrustesSettings",
    "Stiefel",
    "subspace_distance",
]
