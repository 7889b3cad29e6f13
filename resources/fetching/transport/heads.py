"""Reads an answer's head once: what it says of the body, of caching and of when to come again."""

from itertools import chain

import aiohttp
from aiohttp import hdrs

from ..errors import FetchError
from ..outcomes import Failure, Head, Hop
from ..requests import Limits, is_sendable
from ..times import http_dates, retry_after

MAX_VALIDATOR_CHARACTERS = 1000

MAX_LENGTH_DIGITS = 19


def read(response: aiohttp.ClientResponse, url: str, hops: list[Hop], limits: Limits, now: float) -> Head:
    """The head of an answer that `url` gave at `now`, in Unix seconds. Raises FetchError when it is too large."""
    if sum(map(len, chain.from_iterable(response.raw_headers))) > limits.max_head_bytes:
        raise FetchError(Failure.TOO_BIG, "header fields beyond the limit", status=response.status)
    headers = response.headers
    return Head(
        status=response.status,
        url=url,
        headers=headers,
        received_at=now,
        hops=tuple(hops),
        content_type=_text(headers.get(hdrs.CONTENT_TYPE, "")),
        content_length=_length(headers.get(hdrs.CONTENT_LENGTH), chunked=hdrs.TRANSFER_ENCODING in headers),
        etag=_validator(headers.get(hdrs.ETAG)),
        last_modified=_validator(headers.get(hdrs.LAST_MODIFIED)),
        retry_after_seconds=asked_to_wait(response, now) if hdrs.RETRY_AFTER in headers else None,
    )


def asked_to_wait(response: aiohttp.ClientResponse, now: float) -> float | None:
    """The seconds of Retry-After, if it is there and makes sense."""
    lines = response.headers.getall("Retry-After", [])
    if not lines:
        return None
    return retry_after.seconds(lines, now, date=http_dates.parse(response.headers.get("Date", ""), now))


def _length(value: str | None, *, chunked: bool) -> int | None:
    if value is None or chunked or len(value) > MAX_LENGTH_DIGITS or not (value.isascii() and value.isdigit()):
        return None
    return int(value)


def _validator(value: str | None) -> str | None:
    """As it was received; None when it is too long to keep, or of bytes that cannot be sent back."""
    if not value or len(value) > MAX_VALIDATOR_CHARACTERS or not is_sendable(value):
        return None
    return value


def _text(value: str) -> str:
    """Without the half surrogates that stand for bytes which are no UTF-8: they can be stored nowhere."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
