"""Objectives spread over agents, with their data and what is known about them."""

from ..sets import Stiefel
from .base import AgentProblem, Deferred
from .cca import CCA
from .covariances import canonical_correlations
from .functions import FunctionProblem, NonsmoothFunctionProblem
from .gevp import GEVP, GEVPSettings, pencil
from .hevp import HEVP, HEVPSettings
from .hspp import HSPP, HSPPSettings
from .ica import ICA, GeneralizedICA, ICASettings, amari_distance, log_cosh
from .knowledge import KnowledgeGraph
from .l1 import L1PCA, L1PCASettings, SparsePCA, SparsePCASettings
from .lda import LDASettings, scatters
from .matrix_completion import MatrixCompletion, MatrixCompletionSettings
from .odl import ODLSettings, OrthogonalDictionaryLearning, dictionary_error
from .pca import PCA, PCASettings, subspace_distance
from .procrustes import Procrustes, ProcrustesSettings
from .rsr import RobustSubspaceRecovery, RSRSettings, complement_distance, on_sphere
from .spread import Spread, SpreadProblem
from .ultrae import UltraE, UltraESettings
from .views import CCASettings

__all__ = [
    "CCA",
    "GEVP",
    "HEVP",
    "HSPP",
    "ICA",
    "L1PCA",
    "PCA",
    "AgentProblem",
    "CCASettings",
    "Deferred",
    "FunctionProblem",
    "GEVPSettings",
    "GeneralizedICA",
    "HEVPSettings",
    "HSPPSettings",
    "ICASettings",
    "KnowledgeGraph",
    "L1PCASettings",
    "LDASettings",
    "MatrixCompletion",
    "MatrixCompletionSettings",
    "NonsmoothFunctionProblem",
    "ODLSettings",
    "OrthogonalDictionaryLearning",
    "PCASettings",
    "Procrustes",
    "ProcrustesSettings",
    "RSRSettings",
    "RobustSubspaceRecovery",
    "SparsePCA",
    "SparsePCASettings",
    "Spread",
    "SpreadProblem",
    "Stiefel",
    "UltraE",
    "UltraESettings",
    "amari_distance",
    "canonical_correlations",
    "complement_distance",
    "dictionary_error",
    "log_cosh",
    "on_sphere",
    "pencil",
    "scatters",
    "subspace_distance",
]
