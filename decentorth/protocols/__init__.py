"""The contracts between the parts of decentorth.

A *point* is ONE float64 C-contiguous array per agent, and everything an algorithm touches is *stacked*: ``(n_local, *shape)``,
where ``n_local`` is the number of agents that live in this process. Several variables (CCA's X and Y) are slices of the point that
only a problem and its constraint know. Arithmetic, mixing, hashing and metrics never look inside.
"""

from .._lazy import lazily
from .arrays import Array as Array
from .arrays import Index as Index
from .network import Collective as Collective
from .network import Network as Network
from .network import Purpose as Purpose
from .network import PushPullSpectrum as PushPullSpectrum
from .network import Spectrum as Spectrum
from .network import Streams as Streams
from .problems import ColumnOracle as ColumnOracle
from .problems import Composite as Composite
from .problems import Counted as Counted
from .problems import Eigenproblem as Eigenproblem
from .problems import Evaluated as Evaluated
from .problems import HessianProducts as HessianProducts
from .problems import HoldsOut as HoldsOut
from .problems import KnownOptimum as KnownOptimum
from .problems import KnownValue as KnownValue
from .problems import LocalProducts as LocalProducts
from .problems import Nonsmooth as Nonsmooth
from .problems import Oracle as Oracle
from .problems import Problem as Problem
from .problems import Quadratic as Quadratic
from .problems import Recommends as Recommends
from .problems import Regularizer as Regularizer
from .problems import RowForm as RowForm
from .problems import Sampled as Sampled
from .problems import SampledMatrices as SampledMatrices
from .problems import SampledProducts as SampledProducts
from .problems import Smooth as Smooth
from .problems import SplitFeatures as SplitFeatures
from .problems import SubgradientSettings as SubgradientSettings
from .problems import TraceForm as TraceForm
from .problems import WeaklyConvex as WeaklyConvex
from .problems import Whitening as Whitening
from .run import SETUP as SETUP
from .run import Agreed as Agreed
from .run import Algorithm as Algorithm
from .run import Asynchronous as Asynchronous
from .run import Completing as Completing
from .run import Declared as Declared
from .run import Ending as Ending
from .run import Metric as Metric
from .run import Observed as Observed
from .run import P as P
from .run import Quantity as Quantity
from .run import Recorder as Recorder
from .run import Rewound as Rewound
from .run import Row as Row
from .run import S as S
from .run import State as State
from .run import Stop as Stop
from .run import StoppingRule as StoppingRule
from .sets import AugmentedLagrangian as AugmentedLagrangian
from .sets import ByProducts as ByProducts
from .sets import ConstraintSet as ConstraintSet
from .sets import Direction as Direction
from .sets import Landing as Landing
from .sets import MetricName as MetricName
from .sets import OrthonormalLanding as OrthonormalLanding
from .sets import ProductLanding as ProductLanding
from .sets import ProjectableManifold as ProjectableManifold
from .sets import Projection as Projection
from .sets import Retractable as Retractable
from .sets import RetractableManifold as RetractableManifold
from .sets import Retraction as Retraction
from .sets import Riemannian as Riemannian
from .sets import Signature as Signature
from .sets import Signatures as Signatures
from .sets import Spectral as Spectral
from .sets import TrackedProducts as TrackedProducts
from .sets import WithMatrices as WithMatrices

__getattr__, __dir__ = lazily(__name__)
