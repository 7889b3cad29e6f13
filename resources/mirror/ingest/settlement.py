"""Determines the settlement of a URL from its row and the outcome of its fetch.

Stores bytes and reads rows, but writes no rows.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import Error as DatabaseError

from resources.fetch.http import url_syntax
from resources.fetch.http.limit_scopes import url_scopes
from resources.fetch.http.messages import BodyDropped, Fetched, FetchFailed, Head, NotModified
from resources.fetch.http.url_syntax import REDIRECT_STATUSES
from retry.errors import PreparationError
from retry.work import Argument

from .. import conf, hosts
from ..canonical.urls import candidate_digests, canonicalise_url, find_surest
from ..errors import MirrorError, UrlError
from ..hosts import HostRecord
from ..media.sniff import MediaKind, recognise_content
from ..models import Blob, DedupeStep, Resource, UrlState, Validator
from ..storage import blobs, small_files, takedown
from ..storage.uploads import InStorage, MissingBytes, OnThisMachine, locate_blob
from ..url_rules import current_rules
from . import dedupe, due_times, url_outcome, wanted_urls
from .dedupe import LaneName, ValidatorStrength, ValidatorTrust
from .url_outcome import FoundContent, NothingFound, SourceUrl, UrlOutcome, VouchedContent

REPEAT_SECONDS = 5.0
"""Pause before work is repeated that failed through our own fault."""

_ROW = f"SELECT * FROM {Resource._meta.db_table} WHERE url_digest = %s"  # noqa: S608  Django writes it in twice the time

_ROWS = f"SELECT * FROM {Resource._meta.db_table} WHERE url_digest IN "  # noqa: S608  the same


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """One URL and its row, which is missing only if it was removed meanwhile."""

    source: SourceUrl
    row: Resource | None

    @classmethod
    def read(cls, arguments: tuple[Argument, ...], token: int = 0) -> "FetchTarget":
        """Reads the row for the arguments of a fetch task, and its claim's token. Raises PreparationError."""
        try:
            row = next(iter(Resource.objects.raw(_ROW, [str(arguments[1])])), None)
        except DatabaseError as error:
            raise unreadable_error() from error
        return cls.of(arguments, token, row)

    @classmethod
    def read_rows(cls, url_digests: Sequence[str]) -> dict[str, Resource]:
        """Reads the rows of URLs by their digests. Raises DatabaseError."""
        statement = _ROWS + f"({', '.join(['%s'] * len(url_digests))})"
        return {row.pk: row for row in Resource.objects.raw(statement, list(url_digests))}

    @classmethod
    def of(cls, arguments: tuple[Argument, ...], token: int, row: Resource | None) -> "FetchTarget":
        """Returns the target with that row. Raises PreparationError."""
        url, url_digest = str(arguments[0]), str(arguments[1])
        try:
            host = row.host if row else canonicalise_url(url, current_rules()).host
        except DatabaseError as error:
            raise unreadable_error() from error
        except UrlError as error:
            raise PreparationError(str(error), status=404) from error
        if row is not None and row.url != url and url_scopes(row.url).host == url_scopes(url).host:
            url = _choose_request(url, row.url)
        return cls(SourceUrl(url_digest, url, host, token), row)

    def with_token(self, token: int) -> "FetchTarget":
        """Returns the target for that claim: a later one may have read it."""
        if token == self.source.token:
            return self
        return FetchTarget(replace(self.source, token=token), self.row)

    @property
    def lane(self) -> LaneName:
        return "large" if self.row is not None and self.row.lane == "large" else "fast"

    @property
    def stored_digest(self) -> str:
        """The digest of its stored content; empty for a new URL."""
        return self.row.blob_digest if self.row else ""

    @property
    def attempts(self) -> int:
        return self.row.attempts if self.row else 0


def _choose_request(asked: str, stored: str) -> str:
    """Chooses between the URL that is asked for and that of the row: by the later end, a signature before none."""
    return max((stored, asked), key=lambda one: wanted_urls.find_expiry(one) or _now())


def unreadable_error() -> PreparationError:
    """Returns the error for a database outage: the fetch is repeated."""
    return PreparationError("The files cannot be read now.", status=503, retry_seconds=REPEAT_SECONDS)


def host_trust(host: HostRecord) -> ValidatorTrust:
    return ValidatorTrust(host.confirmed, host.confirmed_opaque, host.lies)


def digest_by_head(head: Head, trust: ValidatorTrust) -> str | None:
    """Returns the digest of the content that the head names, if it is known from this origin. Raises DatabaseError."""
    keys = dedupe.select_trusted_keys(dedupe.read_validators(head), trust)
    if not keys:
        return None
    known = dict(Validator.objects.filter(pk__in=keys).values_list("pk", "blob_digest"))
    digest = dedupe.find_agreed_digest(keys, known)
    return digest if digest and has_blob(digest) else None


def find_row_of_redirect(url: str, source: SourceUrl) -> Resource | None:
    """Returns the row of known content at the URL that `source` redirects to, or None; also None for `source` itself.

    Includes content that was taken down: it is not fetched again. Leaves out content that may have changed at its
    origin, where the content of either host is checked. Raises DatabaseError.
    """
    try:
        digests = candidate_digests(url, current_rules())
    except UrlError:
        return None
    if source.url_digest in digests:
        return None
    known = Resource.objects.in_bulk(digests)  # not from the cache, which may predate the discovery of a lying host
    found = find_surest(digests, known, _is_row_settled)
    if found is None or not _is_row_settled(found):
        return None
    if any(wanted_urls.is_due(found, url, host, _now()) for host in (source.host, found.host)):
        return None
    return found if has_blob(found.blob_digest) else None


def _is_row_settled(row: Resource) -> bool:
    return row.state == UrlState.STORED or row.failure == takedown.TAKEN_DOWN_FAILURE


def has_blob(digest: str) -> bool:
    """Tells whether the blob has a row and its bytes are there, or it was taken down."""
    blob = _find_blob(digest)
    return blob is not None and (blob.taken_down_at is not None or not isinstance(locate_blob(blob), MissingBytes))


def has_blob_at_hand(digest: str) -> bool:
    """The same, but False for bytes that another machine still has to upload: it may never do so."""
    blob = _find_blob(digest)
    return blob is not None and (
        blob.taken_down_at is not None or isinstance(locate_blob(blob), OnThisMachine | InStorage)
    )


def _find_blob(digest: str) -> Blob | None:
    return Blob.objects.filter(pk=digest).first() if digest else None


VOUCHED_STEPS = (DedupeStep.VALIDATORS, DedupeStep.UNCHANGED)
"""The steps that settle a URL by its host's word alone."""


def settle_fetch(wanted: FetchTarget, outcome: Fetched | NotModified | BodyDropped | FetchFailed) -> UrlOutcome:
    """Returns the outcome to write. Raises PreparationError if the fetch has to be repeated, and DatabaseError."""
    if not isinstance(outcome, FetchFailed) and _leads_to_blocked(outcome):
        return give_up_url(wanted, hosts.BLOCKED_FAILURE, hosts.BLOCKED_DETAIL.rstrip("."), outcome.head.status)
    match outcome:
        case Fetched():
            return _settle_fetched(wanted, outcome)
        case NotModified(head=head):
            return _build_found(wanted, head, wanted.stored_digest, DedupeStep.UNCHANGED)
        case BodyDropped():
            return _settle_dropped(wanted, outcome)
        case FetchFailed():
            return _settle_failed(wanted, outcome)


@dataclass(frozen=True, slots=True)
class FetchedBody:
    """A URL, and the body that it gave: in memory, and without a redirect on the way."""

    wanted: FetchTarget
    fetched: Fetched


def settle_bodies(bodies: Sequence[FetchedBody]) -> list[UrlOutcome | PreparationError]:
    """Stores the bodies, as settle_fetch does each; returns the outcomes to write, or errors. Raises DatabaseError."""
    down = takedown.find_taken_down({one.fetched.body.digest for one in bodies})
    stored = {body.digest: body.read() for one in bodies if (body := one.fetched.body).digest not in down}
    failed = small_files.keep_bodies(stored)
    return [_settle_body(one, down, failed) for one in bodies]


def _settle_body(
    one: FetchedBody, down: Collection[str], failed: Mapping[str, MirrorError]
) -> UrlOutcome | PreparationError:
    body, source = one.fetched.body, one.wanted.source
    if body.digest in down:
        return url_outcome.taken_down_outcome(source, body.digest, _now())
    if error := failed.get(body.digest):
        return _unstored_error(error)
    return _build_new(one.wanted, one.fetched, recognise_content(body.read()))


def _settle_fetched(wanted: FetchTarget, outcome: Fetched) -> UrlOutcome:
    """Stores the body, unless its content was taken down."""
    body = outcome.body
    if takedown.is_taken_down(body.digest):
        return url_outcome.taken_down_outcome(wanted.source, body.digest, _now())
    source = body.path if body.path is not None else body.read()
    try:
        kind = recognise_content(source)
        blobs.keep_blob(source, body.digest)
    except (MirrorError, OSError) as error:
        raise _unstored_error(error) from error
    return _build_new(wanted, outcome, kind)


def _unstored_error(cause: Exception) -> PreparationError:
    """Returns the error for a body that the disk or the storage does not take: the fetch is repeated."""
    error = PreparationError("What was fetched could not be stored.", status=503, retry_seconds=REPEAT_SECONDS)
    error.__cause__ = cause
    return error


def _build_new(wanted: FetchTarget, outcome: Fetched, kind: MediaKind) -> FoundContent:
    body = outcome.body
    contents = Blob(
        digest=body.digest,
        size=body.size,
        name=blobs.blob_name(body.digest),
        media_type=kind.media_type,
        width=kind.width,
        height=kind.height,
    )
    return _build_found(wanted, outcome.head, body.digest, DedupeStep.NEW, contents)


def _settle_dropped(wanted: FetchTarget, outcome: BodyDropped) -> UrlOutcome:
    """Settles a body that was not needed: its content is known by a redirect, or by the validators of the head."""
    head = outcome.head
    if head.status in REDIRECT_STATUSES:
        return _settle_redirect(wanted, head, outcome.onward)
    digest = digest_by_head(head, host_trust(hosts.read_host(dedupe.url_authority(head.url))))
    if digest is None:
        raise _forgotten_error()
    is_unchanged = digest == wanted.stored_digest
    return _build_found(wanted, head, digest, DedupeStep.UNCHANGED if is_unchanged else DedupeStep.VALIDATORS)


def _settle_redirect(wanted: FetchTarget, head: Head, onward: str) -> FoundContent:
    """Settles a redirect to known content. It is checked as soon as either the redirect or that content may change."""
    found, now = find_row_of_redirect(onward, wanted.source), _now()
    if found is None:
        raise _forgotten_error()
    due_at = due_times.next_check_at(head, now)
    return FoundContent(
        wanted.source,
        found.blob_digest,
        now,
        step=DedupeStep.REDIRECT,
        status=head.status,
        moved_to=onward,
        aliases=tuple(_urls_on_the_way(wanted, head)),
        due_at=min(due_at, found.due_at) if found.due_at else due_at,
    )


def _forgotten_error() -> PreparationError:
    """Returns the error for content that was removed just now, or whose host was caught lying."""
    return PreparationError("Its content is no longer known.", status=503, retry_seconds=1)


def _build_found(
    wanted: FetchTarget, head: Head, digest: str, step: DedupeStep, contents: Blob | None = None
) -> FoundContent:
    row = wanted.row
    kept = row if row is not None and step is DedupeStep.UNCHANGED else None  # a 304 need not repeat them
    return FoundContent(
        wanted.source,
        digest,
        _now(),
        contents=contents,
        step=step,
        status=head.status,
        moved_to=head.url if head.hops else "",
        etag=head.etag or (kept.etag if kept else ""),
        last_modified=head.last_modified or (kept.last_modified if kept else ""),
        vouched_by=dedupe.url_authority(head.url) if step in VOUCHED_STEPS else None,
        vouched=None if step is DedupeStep.UNCHANGED else _find_vouched(head, again=digest == wanted.stored_digest),
        aliases=tuple(_urls_on_the_way(wanted, head)),
        due_at=due_times.next_check_at(head, _now()),
    )


def _find_vouched(head: Head, *, again: bool) -> VouchedContent | None:
    validators = dedupe.read_validators(head)
    if not validators:
        return None
    opaque = tuple(one.key for one in validators if one.strength is ValidatorStrength.OPAQUE)
    digests = tuple(one.key for one in validators if one.strength is ValidatorStrength.DIGEST)
    return VouchedContent(dedupe.url_authority(head.url), digests, opaque, again)


def is_url_blocked(url: str) -> bool:
    """Tells whether a redirect's target is on a blocked host. Raises DatabaseError."""
    return hosts.is_host_blocked(url_syntax.parse_target(url, max_bytes=url_syntax.MAX_REDIRECT_URL_BYTES).host)


def _leads_to_blocked(outcome: Fetched | NotModified | BodyDropped) -> bool:
    """Tells whether a redirect led to a blocked host. No request goes there, unless the host was blocked just then."""
    head = outcome.head
    reached = outcome.onward if isinstance(outcome, BodyDropped) and outcome.onward else head.url
    return bool(head.hops) and is_url_blocked(reached)


def _urls_on_the_way(wanted: FetchTarget, head: Head) -> Iterator[SourceUrl]:
    """Yields the URLs on the way, except the wanted one."""
    if not head.hops:
        return
    rules = current_rules()
    for url in dict.fromkeys((*(hop.url for hop in head.hops), head.url)):
        try:
            found = canonicalise_url(url, rules)
        except UrlError:
            continue
        if found.digest != wanted.source.url_digest:
            yield SourceUrl(found.digest, url, found.host, wanted.source.token)


def _settle_failed(wanted: FetchTarget, outcome: FetchFailed) -> NothingFound:
    attempts = wanted.attempts + 1
    is_signed = url_syntax.find_url_expiry(wanted.source.url) is not None
    failure, detail = dedupe.choose_recorded_failure(outcome, is_signed=is_signed).value, outcome.detail
    if dedupe.is_final_failure(outcome, attempts, settings.MIRROR_ATTEMPTS):
        return give_up_url(wanted, failure, detail, outcome.status, outcome.retry_after_seconds or 0)
    due_at = _now() + max(conf.retry_pause(attempts), timedelta(seconds=outcome.retry_after_seconds or 0))
    return NothingFound(
        wanted.source,
        UrlState.WANTED,
        _now(),
        failure,
        detail,
        outcome.status,
        attempts,
        due_at,
        wanted.stored_digest,
        rounds=wanted.row.rounds if wanted.row else 0,
    )


def give_up_url(
    wanted: FetchTarget, failure: str, detail: str, status: int | None = None, wait_seconds: float = 0
) -> NothingFound:
    """Gives the URL up, until a request after its pause. Its stored content stays."""
    return url_outcome.give_up_outcome(
        wanted.source, wanted.row, failure, detail, _now(), status=status, wait_seconds=wait_seconds
    )


def _now() -> datetime:
    return datetime.now(UTC)
