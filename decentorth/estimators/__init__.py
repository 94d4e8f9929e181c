"""Estimators with the interface of scikit-learn, for data in one place, in a stream, or held by agents on a graph."""

try:
    import sklearn.base  # noqa: F401  # the classes below are scikit-learn's; it is the optional extra ``data``
except ModuleNotFoundError as error:
    repair = 'pip install "decentorth[data]"'
    raise ModuleNotFoundError(f"decentorth.estimators needs scikit-learn ({error}): {repair}", name=error.name) from error

from .cca import CCA
from .ica import ICA
from .orthogonal_dictionary import OrthogonalDictionary
from .pca import PCA
from .robust_subspace import RobustSubspace

__all__ = ["CCA", "ICA", "PCA", "OrthogonalDictionary", "RobustSubspace"]
