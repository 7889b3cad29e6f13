"""The errors of the deferral protocol. Each carries the facts that its handler needs to decide. PURE."""


class RetryError(Exception):
    """Base of every error of the protocol."""


class StoreUnavailable(RetryError):
    """A Redis server cannot be reached, is too slow, or refused the command."""


class QueueUnavailable(RetryError):
    """Work could not be handed to its lane, and should not be for `retry_seconds`, if that is known."""

    def __init__(self, detail: str, *, retry_seconds: float | None = None) -> None:
        super().__init__(detail)
        self.retry_seconds = retry_seconds


class PreparationError(RetryError):
    """A preparer cannot make this content now. `detail` is shown to clients.

    `status` is 404, 502, 503 or 504. `retry_seconds` replaces the computed back-off.
    """

    def __init__(self, detail: str, *, status: int = 502, retry_seconds: float | None = None) -> None:
        if status not in {404, 502, 503, 504}:
            raise ValueError(f"A preparation fails with 404, 502, 503 or 504, not {status}.")
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.retry_seconds = retry_seconds


class TicketError(RetryError):
    """A ticket that cannot be honoured: 400 when it is malformed, 403 when it is not ours.

    `redirect` is the content's address in an old ticket of a page: browsers keep such addresses in their history.
    """

    def __init__(self, detail: str, *, status: int, redirect: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        self.redirect = redirect
