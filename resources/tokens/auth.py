"""Who asks: tokens are issued, found again and counted. Does not know what they are used for."""

import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from django.db import Error as DatabaseError
from django.http import HttpRequest
from ninja.security import HttpBearer

from resources.api.models import ApiToken
from resources.tiles import tile
from resources.tiles.errors import UnknownLayerError

from . import secrecy, throttling
from .problems import Problem
from .secrecy import Kept

NOTED_EVERY = timedelta(minutes=1)

_SLUG = re.compile(tile.SLUG)

_log = logging.getLogger("tarry.api")


@dataclass(frozen=True, slots=True)
class Issued:
    """A token that was made just now. Its text is not kept: nobody can show it again."""

    text: str
    row: ApiToken


class Token(HttpBearer):
    """`Authorization: Bearer …`, with a token that is in force and was not used too often."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        """The token's row; None, which becomes 401, when it is not in force. Raises Problem when used too often."""
        now = datetime.now(UTC)
        row = find_token(token.strip(), now)
        if row is not None:
            wait_seconds = throttling.seconds_to_wait(row.pk, now.timestamp())
            if wait_seconds:
                raise Problem(429, f"This token was used too often. Wait {wait_seconds:.0f} s.", wait_seconds)
            _note_use(row, now)
        return row


def issue(row: ApiToken) -> Issued:
    """Saves a row with a new token. Raises ValidationError for a name that is taken."""
    text = secrecy.make_token()
    kept = Kept.of(text)
    assert kept is not None
    row.prefix, row.digest = kept.prefix, kept.digest
    row.full_clean()
    row.save()
    return Issued(text, row)


def find_token(text: str, now: datetime) -> ApiToken | None:
    """The token of that text if it is in force. Does not note that it was used."""
    kept = Kept.of(text)
    if kept is None:
        return None
    for row in ApiToken.objects.filter(prefix=kept.prefix):
        if kept.is_digest(row.digest):
            return row if row.is_valid(now) else None
    return None


def require_layer(request: HttpRequest, slug: str) -> ApiToken:
    """The token of the request. Raises Problem when it may not change the layer, there or not.

    Raises UnknownLayerError for what is no slug at all: PostgreSQL would not even compare it.
    """
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if not token.may_change(slug):
        raise Problem(403, f"The token “{token}” may not change the layer “{slug}”. The admin says which it may.")
    if not _SLUG.fullmatch(slug):
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return token


def require_mirroring(request: HttpRequest) -> ApiToken:
    """The token of the request. Raises Problem when it may not mirror files."""
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if not token.may_mirror:
        raise Problem(403, f"The token “{token}” may not mirror files. The admin can permit it.")
    return token


def require_taking_down(request: HttpRequest) -> ApiToken:
    """The token of the request. Raises Problem when it may not take files down."""
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if not token.may_take_down:
        raise Problem(403, f"The token “{token}” may not take files down. The admin can permit it.")
    return token


def _note_use(row: ApiToken, now: datetime) -> None:
    """Notes the use unless one was noted within the last minute. Losing the note is no reason to refuse."""
    if row.last_used_at and now - row.last_used_at < NOTED_EVERY:
        return
    try:
        ApiToken.objects.filter(pk=row.pk).update(last_used_at=now)
    except DatabaseError:
        _log.warning("could not note the use of a token", extra={"token": row.name}, exc_info=True)
