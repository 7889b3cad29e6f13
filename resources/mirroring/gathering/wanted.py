"""A URL that is wanted, with its row, and what is known already of what its origin says."""

from dataclasses import dataclass

from django.db import Error as DatabaseError

from resources.fetching.addressing.scopes import scopes
from resources.fetching.outcomes import Head
from retry.errors import PreparationError
from retry.work import Argument

from ..canonical.urls import canonical, known_as, surest
from ..errors import UrlError
from ..knowing import rows
from ..knowing.found import Source
from ..knowing.hosts import Host
from ..knowing.models import Blob, Resource, State, Validator
from ..knowing.rules import current_rules
from ..storing import taking_down
from ..storing.places import Here, Lost, Stored, whereabouts
from . import deciding, validators
from .deciding import Trust
from .work import Lane

AGAIN_SECONDS = 5.0
"""When work is done again that failed of ourselves."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One URL and its row, which is missing only if it was removed meanwhile."""

    source: Source
    row: Resource | None

    @classmethod
    def read(cls, arguments: tuple[Argument, ...]) -> "Wanted":
        """Raises PreparationError."""
        url, url_digest = str(arguments[0]), str(arguments[1])
        try:
            row = rows.resource(url_digest)
            host = row.host if row else canonical(url, current_rules()).host
        except DatabaseError as error:
            raise unreadable() from error
        except UrlError as error:
            raise PreparationError(str(error), status=404) from error
        if row is not None and row.url != url and scopes(row.url).host == scopes(url).host:
            # its signature may hold for longer
            url = row.url
        return cls(Source(url_digest, url, host), row)

    @property
    def lane(self) -> Lane:
        return "large" if self.row is not None and self.row.lane == "large" else "fast"

    @property
    def stored_digest(self) -> str:
        """What it had before; empty for a new one."""
        return self.row.blob_digest if self.row else ""

    @property
    def attempts(self) -> int:
        return self.row.attempts if self.row else 0


def unreadable() -> PreparationError:
    """The database is away: nothing is known of the URL, and it is done again."""
    return PreparationError("The files cannot be read now.", status=503, retry_seconds=AGAIN_SECONDS)


def trust_in(host: Host) -> Trust:
    return Trust(host.confirmed, host.confirmed_opaque, host.lies)


def known_by(head: Head, trust: Trust) -> str | None:
    """The digest of the content that the head says it has, if that is known of its origin. Raises DatabaseError."""
    keys = deciding.believed(validators.read(head), trust)
    if not keys:
        return None
    known = dict(Validator.objects.filter(pk__in=keys).values_list("pk", "blob_digest"))
    digest = deciding.known_content(keys, known)
    return digest if digest and is_blob(digest) else None


def known_at(url: str, not_of: str) -> str | None:
    """The digest of what that URL is known to have, unless it is the one of that digest. Raises DatabaseError.

    Also of what was taken down: nobody asks for that again.
    """
    try:
        digests = known_as(url, current_rules())
    except UrlError:
        return None
    if not_of in digests:
        return None
    known = Resource.objects.in_bulk(digests)  # what is remembered may be from before its host was caught lying
    found = surest(digests, known, _is_settled)
    if found is None or not _is_settled(found):
        return None
    return found.blob_digest if is_blob(found.blob_digest) else None


def _is_settled(row: Resource) -> bool:
    return row.state == State.STORED or row.failure == taking_down.FAILURE


def is_blob(digest: str) -> bool:
    """Whether there is a row for it and its bytes are where that says, be it one that was taken down."""
    blob = _blob(digest)
    return blob is not None and (blob.taken_down_at is not None or not isinstance(whereabouts(blob), Lost))


def is_at_hand(digest: str) -> bool:
    """The same, but not for what another machine has to upload first: nobody knows whether it will."""
    blob = _blob(digest)
    return blob is not None and (blob.taken_down_at is not None or isinstance(whereabouts(blob), Here | Stored))


def _blob(digest: str) -> Blob | None:
    return Blob.objects.filter(pk=digest).first() if digest else None
