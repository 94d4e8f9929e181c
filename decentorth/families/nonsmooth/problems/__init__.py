"""The problems of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .l1_pca import L1PCA as L1PCA
    from .l1_pca import L1PCASettings as L1PCASettings
    from .odl import ODLSettings as ODLSettings
    from .odl import OrthogonalDictionaryLearning as OrthogonalDictionaryLearning
    from .odl import dictionary_error as dictionary_error
    from .robust_pca import RobustPCA as RobustPCA
    from .robust_pca import RobustPCASettings as RobustPCASettings
    from .rsr import RobustSubspaceRecovery as RobustSubspaceRecovery
    from .rsr import RSRSettings as RSRSettings
    from .rsr import complement_distance as complement_distance
    from .rsr import on_sphere as on_sphere
    from .sparse_cca import SparseCCA as SparseCCA
    from .sparse_cca import SparseCCASettings as SparseCCASettings
    from .sparse_pca import SparsePCA as SparsePCA
    from .sparse_pca import SparsePCASettings as SparsePCASettings

__getattr__, __dir__ = lazily(__name__)
