"""Objectives spread over agents, with their data and what is known about them."""

from ..sets import Stiefel
from .base import AgentProblem, Deferred
from .functions import FunctionProblem
from .ica import ICA, ICASettings, amari_distance, log_cosh
from .l1 import L1PCA, L1PCASettings, SparsePCA, SparsePCASettings
from .matrix_completion import MatrixCompletion, MatrixCompletionSettings
from .odl import ODLSettings, OrthogonalDictionaryLearning, dictionary_error
from .pca import PCA, PCASettings, subspace_distance
from .procrustes import Procrustes, ProcrustesSettings
from .rsr import RobustSubspaceRecovery, RSRSettings, complement_distance

__all__ = [
    "ICA",
    "L1PCA",
    "PCA",
    "AgentProblem",
    "Deferred",
    "FunctionProblem",
    "ICASettings",
    "L1PCASettings",
    "MatrixCompletion",
    "MatrixCompletionSettings",
    "ODLSettings",
    "OrthogonalDictionaryLearning",
    "PCASettings",
    "Procrustes",
    "ProcrustesSettings",
    "RSRSettings",
    "RobustSubspaceRecovery",
    "SparsePCA",
    "SparsePCASettings",
    "Stiefel",
    "amari_distance",
    "complement_distance",
    "dictionary_error",
    "log_cosh",
    "subspace_distance",
]
