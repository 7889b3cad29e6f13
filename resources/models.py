"""Django's list of the models of this app: each package of resources has its own."""

from .fetch.models import FetchDomain, FetchHeader, FetchTiming  # noqa: F401
from .mirror.models import Batch, BatchItem, Blob, MirroredHost, Resource, Rule, Tally, Validator  # noqa: F401
from .prewarm.models import PrewarmRecord  # noqa: F401
from .tiles.models import Layer, validate_seconds, whole_world  # noqa: F401  # migrations name them here
from .tokens.models import ApiToken  # noqa: F401
