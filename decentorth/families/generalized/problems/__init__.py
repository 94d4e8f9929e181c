"""The problems of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .cca import CCA as CCA
    from .cca_settings import CCASettings as CCASettings
    from .covariances import canonical_correlations as canonical_correlations
    from .gevp import GEVP as GEVP
    from .gevp import GEVPSettings as GEVPSettings
    from .gevp import PooledGEVP as PooledGEVP
    from .gevp import pencil as pencil
    from .ica import ICA as ICA
    from .ica import GeneralizedICA as GeneralizedICA
    from .ica import ICASettings as ICASettings
    from .ica import amari_distance as amari_distance
    from .ica import log_cosh as log_cosh
    from .lda import LDASettings as LDASettings
    from .lda import scatters as scatters
    from .maxvar import MAXVAR as MAXVAR
    from .maxvar import MAXVARSettings as MAXVARSettings

__getattr__, __dir__ = lazily(__name__)
