"""The errors of fetching. PURE."""

from .outcomes import Failure, Obstacle


class FetchError(Exception):
    """A fetch that ends here. Carries what `Failed` tells; the client turns it into that."""

    def __init__(
        self,
        failure: Failure,
        detail: str,
        *,
        status: int | None = None,
        retry_after_seconds: float | None = None,
        obstacle: Obstacle | None = None,
    ) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.obstacle = obstacle


class MalformedExceptionError(ValueError):
    """An entry of FETCH_ALLOW_PRIVATE that names no network."""


class UnreadableSealError(Exception):
    """A sealed value that none of the keys opens."""


class MalformedEgressError(ValueError):
    """An entry of FETCH_EGRESS that names no way out."""
