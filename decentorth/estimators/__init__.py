"""Estimators with the interface of scikit-learn, for data in one place, in a stream, or held by
agents on a graph.

All have these parameters, by name only:

algorithm
    The name of a method, or one with its settings such as ``DRFGT(penalty=5.0)``; auto: the method
    that fits the problem and the network, as for `decentorth.solve`.
step_size
    The method's, where it is given by name; auto: Barzilai-Borwein steps for RGD and landing
    methods on data in one place, otherwise the method's own.
tol
    The gradient norm, and for agents also their disagreement, at the end; for nonsmooth problems
    the share of the first step to which steps shrink.
max_iter
    The most iterations; a ConvergenceWarning says when they were too few.
random_state
    The seed of the start and of random methods. Under ``mpirun`` it must be a number.
verbose
    Show how far a fit is, in a notebook or on a terminal.

and these attributes after a fit, besides their own: ``n_components_``, ``n_features_in_``,
``n_iter_`` (iterations of the method, 1 where the start was the answer; after `partial_fit`,
batches), and ``feature_names_in_`` where the data had names. After a run of a method there are
``history_``, the history of that run, ``communication_``, its numbers of rounds, messages and
bytes, and ``sent_``, the rows of `Result.sent`: what has left each site.
"""

try:
    import sklearn.base  # noqa: F401  # the optional extra ``data``, of which the classes below are
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"decentorth.estimators needs scikit-learn ({error}): pip install scikit-learn",
        name=error.name,
    ) from error

from ..problems.common.coordinates import Coordinates, PairedCoordinates
from .cca import CCA
from .ica import ICA
from .lda import LDA
from .multiview import MultiviewCCA
from .pca import PCA
from .robust import OrthogonalDictionary, RobustSubspace

__all__ = ["CCA", "ICA", "LDA", "PCA", "Coordinates", "MultiviewCCA", "PairedCoordinates"]
__all__ += ["OrthogonalDictionary", "RobustSubspace"]
