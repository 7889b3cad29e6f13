"""Issues API tokens, finds them again, and limits their use. Does not know their purpose.

The row has a digest of the token, not its text. Calls and URLs are counted for each minute of the clock in
`state`, not in `cache`: strangers can fill that until it evicts the counts. Nothing is counted while `state` is
away or full: the token is known, and does not make other clients wait.

Ninja's throttles do not replace this: they rewrite a list of times for each call, in objects that threads share,
and one call cannot count for many URLs.
"""

import logging
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import cast

from django.conf import settings
from django.db import Error as DatabaseError
from django.http import HttpRequest
from ninja.security import HttpBearer
from redis.exceptions import RedisError

from retry import stores

from ..problems import Problem
from ..tiles import tile_address
from ..tiles.errors import UnknownLayerError
from .models import ApiToken

TOKEN_RANDOM_BYTES = 32
PREFIX_LENGTH = len("tarry_") + 8

_TOKEN_PATTERN = re.compile(r"tarry_[A-Za-z0-9_-]{43}", re.ASCII)


USE_NOTED_EVERY = timedelta(minutes=1)
WINDOW_SECONDS = 60

_SLUG_PATTERN = re.compile(tile_address.SLUG_PATTERN)
_log = logging.getLogger("tarry.api")


def seconds_to_wait(token_id: int, now_seconds: float) -> float:
    """Counts a call. Returns 0 if it may be answered, else the seconds until the next minute."""
    return _count_in_window("calls", token_id, 1, settings.API_CALLS_PER_MINUTE, now_seconds)


def seconds_to_wait_for_urls(token_id: int, number: int, now_seconds: float) -> float:
    """Counts so many URLs. Returns 0 if they may be looked at, else the seconds until the next minute."""
    return _count_in_window("urls", token_id, number, settings.API_URLS_PER_MINUTE, now_seconds)


def _count_in_window(what: str, token_id: int, number: int, most: int, now_seconds: float) -> float:
    if not most:
        return 0
    try:
        counted, wait_seconds = stores.count_in_window(
            "state", f"api:{what}", str(token_id), number, window_seconds=WINDOW_SECONDS, now_seconds=now_seconds
        )
    except RedisError:
        _log.warning("calls are not counted: state takes nothing", exc_info=True)
        return 0
    return wait_seconds if counted > most else 0


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token that was made just now. Its text is not stored, and cannot be shown again."""

    text: str
    row: ApiToken


class Token(HttpBearer):
    """Accepts `Authorization: Bearer …` with a token that is in force and was not used too often."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        """Returns the token's row; None, which becomes 401, if not in force. Raises Problem if used too often."""
        now = datetime.now(UTC)
        row = find_token(token.strip(), now)
        if row is not None:
            if wait_seconds := seconds_to_wait(row.pk, now.timestamp()):
                raise Problem(429, f"This token was used too often. Wait {wait_seconds:.0f} s.", wait_seconds)
            _note_use(row, now)
        return row


def issue_token(row: ApiToken) -> IssuedToken:
    """Saves a row with a new token. Raises ValidationError for a name that is taken."""
    text = f"tarry_{secrets.token_urlsafe(TOKEN_RANDOM_BYTES)}"
    row.prefix, row.digest = text[:PREFIX_LENGTH], _token_digest(text)
    row.full_clean()
    row.save()
    return IssuedToken(text, row)


def find_token(text: str, now: datetime) -> ApiToken | None:
    """Returns the token of that text if it is in force. Does not note its use."""
    if not _TOKEN_PATTERN.fullmatch(text):
        return None
    digest = _token_digest(text)
    for row in ApiToken.objects.filter(prefix=text[:PREFIX_LENGTH]):
        if secrets.compare_digest(digest, row.digest):
            return row if row.is_valid(now) else None
    return None


def _token_digest(text: str) -> str:
    """Plain SHA-256 is enough: 256 random bits cannot be guessed, however fast the guesses."""
    return sha256(text.encode()).hexdigest()


def require_layer(request: HttpRequest, slug: str) -> ApiToken:
    """Returns the token of the request. Raises Problem if it may not change the layer, existing or not.

    Raises UnknownLayerError for a text that is no slug at all: PostgreSQL would not even compare it.
    """
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if not token.may_change(slug):
        raise Problem(403, f"The token “{token}” may not change the layer “{slug}”. An admin can permit it.")
    if not _SLUG_PATTERN.fullmatch(slug):
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return token


def require_mirroring(request: HttpRequest) -> ApiToken:
    """Returns the token of the request. Raises Problem if it may not mirror files."""
    return _require(request, "may_mirror", "mirror files")


def require_taking_down(request: HttpRequest) -> ApiToken:
    """Returns the token of the request. Raises Problem if it may not take files down."""
    return _require(request, "may_take_down", "take files down")


def _require(request: HttpRequest, permission: str, what: str) -> ApiToken:
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if not getattr(token, permission):
        raise Problem(403, f"The token “{token}” may not {what}. An admin can permit it.")
    return token


def _note_use(row: ApiToken, now: datetime) -> None:
    """Notes the use unless one was noted within the last minute. Losing the note is no reason to refuse."""
    if row.last_used_at and now - row.last_used_at < USE_NOTED_EVERY:
        return
    try:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    except DatabaseError:
        _log.warning("could not note the use of a token", extra={"token": row.name}, exc_info=True)
