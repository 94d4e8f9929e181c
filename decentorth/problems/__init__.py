"""Objectives spread over agents, with their data and what is known about them; settings that are
imported here can be named on the command line and in files, by the name of their file, without
``_settings`` behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..families.features.problems import *  # noqa: F403
    from ..families.generalized.problems import *  # noqa: F403
    from ..families.j_orthogonal.problems import *  # noqa: F403
    from ..families.knowledge_graphs.problems import *  # noqa: F403
    from ..families.nonsmooth.problems import *  # noqa: F403
    from ..sets import Stiefel as Stiefel
    from .autodiff import ModuleProblem as ModuleProblem
    from .autodiff import from_module as from_module
    from .autodiff.objective import from_function as from_function
    from .base import AgentProblem as AgentProblem
    from .common.gradient_check import GradientCheck as GradientCheck
    from .common.with_term import WithTerm as WithTerm
    from .deferred import Deferred as Deferred
    from .functions import FunctionProblem as FunctionProblem
    from .functions import NonsmoothFunctionProblem as NonsmoothFunctionProblem
    from .spread import Spread as Spread
    from .spread import SpreadProblem as SpreadProblem
    from .stiefel.matrix_completion import MatrixCompletion as MatrixCompletion
    from .stiefel.matrix_completion import MatrixCompletionSettings as MatrixCompletionSettings
    from .stiefel.pca import PCA as PCA
    from .stiefel.pca import PCASettings as PCASettings
    from .stiefel.pca import subspace_distance as subspace_distance
    from .stiefel.procrustes import Procrustes as Procrustes
    from .stiefel.procrustes import ProcrustesSettings as ProcrustesSettings

__getattr__, __dir__ = lazily(__name__)
