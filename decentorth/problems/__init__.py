"""Objectives spread over agents, with their data and what is known about them; settings that are
imported here can be named on the command line and in files, by the name of their file, without
``_settings`` behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..sets import Stiefel as Stiefel
    from .autodiff import ModuleProblem as ModuleProblem
    from .autodiff import from_function as from_function
    from .autodiff import from_module as from_module
    from .base import AgentProblem as AgentProblem
    from .base import Deferred as Deferred
    from .common.gradient_check import GradientCheck as GradientCheck
    from .common.with_term import WithTerm as WithTerm
    from .features.split import SplitCCA as SplitCCA
    from .features.split import SplitGEVP as SplitGEVP
    from .features.split import SplitPCA as SplitPCA
    from .features.split import SplitPencil as SplitPencil
    from .functions import FunctionProblem as FunctionProblem
    from .functions import NonsmoothFunctionProblem as NonsmoothFunctionProblem
    from .generalized.cca import CCA as CCA
    from .generalized.cca_settings import CCASettings as CCASettings
    from .generalized.covariances import canonical_correlations as canonical_correlations
    from .generalized.gevp import GEVP as GEVP
    from .generalized.gevp import GEVPSettings as GEVPSettings
    from .generalized.gevp import PooledGEVP as PooledGEVP
    from .generalized.gevp import pencil as pencil
    from .generalized.lda import LDASettings as LDASettings
    from .generalized.lda import scatters as scatters
    from .generalized.maxvar import MAXVAR as MAXVAR
    from .generalized.maxvar import MAXVARSettings as MAXVARSettings
    from .j_orthogonal.hevp import HEVP as HEVP
    from .j_orthogonal.hevp import HEVPSettings as HEVPSettings
    from .j_orthogonal.hspp import HSPP as HSPP
    from .j_orthogonal.hspp import HSPPSettings as HSPPSettings
    from .j_orthogonal.knowledge import KnowledgeGraph as KnowledgeGraph
    from .j_orthogonal.ultrae import UltraE as UltraE
    from .j_orthogonal.ultrae_settings import UltraESettings as UltraESettings
    from .nonsmooth.l1_pca import L1PCA as L1PCA
    from .nonsmooth.l1_pca import L1PCASettings as L1PCASettings
    from .nonsmooth.odl import ODLSettings as ODLSettings
    from .nonsmooth.odl import OrthogonalDictionaryLearning as OrthogonalDictionaryLearning
    from .nonsmooth.odl import dictionary_error as dictionary_error
    from .nonsmooth.robust_pca import RobustPCA as RobustPCA
    from .nonsmooth.robust_pca import RobustPCASettings as RobustPCASettings
    from .nonsmooth.rsr import RobustSubspaceRecovery as RobustSubspaceRecovery
    from .nonsmooth.rsr import RSRSettings as RSRSettings
    from .nonsmooth.rsr import complement_distance as complement_distance
    from .nonsmooth.rsr import on_sphere as on_sphere
    from .nonsmooth.sparse_cca import SparseCCA as SparseCCA
    from .nonsmooth.sparse_cca import SparseCCASettings as SparseCCASettings
    from .nonsmooth.sparse_pca import SparsePCA as SparsePCA
    from .nonsmooth.sparse_pca import SparsePCASettings as SparsePCASettings
    from .spread import Spread as Spread
    from .spread import SpreadProblem as SpreadProblem
    from .stiefel.ica import ICA as ICA
    from .stiefel.ica import GeneralizedICA as GeneralizedICA
    from .stiefel.ica import ICASettings as ICASettings
    from .stiefel.ica import amari_distance as amari_distance
    from .stiefel.ica import log_cosh as log_cosh
    from .stiefel.matrix_completion import MatrixCompletion as MatrixCompletion
    from .stiefel.matrix_completion import MatrixCompletionSettings as MatrixCompletionSettings
    from .stiefel.pca import PCA as PCA
    from .stiefel.pca import PCASettings as PCASettings
    from .stiefel.pca import subspace_distance as subspace_distance
    from .stiefel.procrustes import Procrustes as Procrustes
    from .stiefel.procrustes import ProcrustesSettings as ProcrustesSettings

__getattr__, __dir__ = lazily(__name__)
