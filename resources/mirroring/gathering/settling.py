"""What becomes of a URL by what came of its fetch. Keeps bytes, reads rows, writes none."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from resources.fetching.addressing import targets
from resources.fetching.addressing.routes import REDIRECTS
from resources.fetching.outcomes import Dropped, Failed, Fetched, Head, NotModified
from retry.errors import PreparationError

from .. import conf
from ..canonical.urls import canonical
from ..contents.types import recognise
from ..errors import MirrorError, UrlError
from ..knowing import hosts, rows
from ..knowing.found import Contents, Found, Lost, Outcome, Source, Vouched
from ..knowing.models import State, Step
from ..knowing.rules import current_rules
from ..storing import blobs, taking_down
from ..writing import blocking
from . import deciding, validators
from .validators import Strength
from .wanted import AGAIN_SECONDS, Wanted, known_at, known_by, trust_in

VOUCHED_FOR = (Step.VALIDATORS, Step.UNCHANGED)
"""What settles a URL by its host's word alone."""


def settled(wanted: Wanted, outcome: Fetched | NotModified | Dropped | Failed) -> Outcome:
    """What is to be written. Raises PreparationError where it has to be done again, and DatabaseError."""
    if not isinstance(outcome, Failed) and _leads_to_blocked(outcome):
        return lost(wanted, blocking.FAILURE, blocking.SAID.rstrip("."), outcome.head.status)
    match outcome:
        case Fetched():
            return _stored(wanted, outcome)
        case NotModified(head=head):
            return _known(wanted, head, wanted.stored_digest, Step.UNCHANGED)
        case Dropped():
            return _spared(wanted, outcome)
        case Failed():
            return _failed(wanted, outcome)


def _stored(wanted: Wanted, outcome: Fetched) -> Outcome:
    """The body is kept, unless its content was taken down."""
    body, head = outcome.body, outcome.head
    if rows.is_taken_down(body.digest):
        said = "its content was taken down"
        return Lost(
            wanted.source, State.FAILED, _now(), taking_down.FAILURE, said, blob_digest=body.digest, step=Step.FAILED
        )
    source = body.path if body.path is not None else body.read()
    try:
        kind = recognise(source)
        name = blobs.keep(source, body.digest)
    except (MirrorError, OSError) as error:
        said = "What was fetched could not be stored."
        raise PreparationError(said, status=503, retry_seconds=AGAIN_SECONDS) from error
    contents = Contents(body.digest, body.size, kind.media_type, kind.width, kind.height, name)
    return _found(wanted, head, body.digest, Step.NEW, contents)


def _spared(wanted: Wanted, outcome: Dropped) -> Outcome:
    """The body was not needed: its content is known by a redirect, or by what the head said."""
    head = outcome.head
    if head.status in REDIRECTS:
        digest, step = known_at(outcome.onward, wanted.source.url_digest), Step.REDIRECT
    else:
        digest, step = known_by(head, trust_in(hosts.as_it_is(validators.host_of(head.url)))), Step.VALIDATORS
    if digest is None:  # it was removed just now, or the host was caught lying
        raise PreparationError("Its content is not known any more.", status=503, retry_seconds=1)
    if step is Step.REDIRECT:
        aliases = tuple(_met(wanted, head))
        return Found(
            wanted.source, digest, _now(), step=step, status=head.status, moved_to=outcome.onward, aliases=aliases
        )
    return _known(wanted, head, digest, Step.UNCHANGED if digest == wanted.stored_digest else step)


def _known(wanted: Wanted, head: Head, digest: str, step: Step) -> Found:
    return _found(wanted, head, digest, step, None)


def _found(wanted: Wanted, head: Head, digest: str, step: Step, contents: Contents | None) -> Found:
    row = wanted.row
    kept = row if row is not None and step is Step.UNCHANGED else None  # a 304 need not repeat them
    return Found(
        wanted.source,
        digest,
        _now(),
        contents=contents,
        step=step,
        status=head.status,
        moved_to=head.url if head.hops else "",
        etag=head.etag or (kept.etag if kept else ""),
        last_modified=head.last_modified or (kept.last_modified if kept else ""),
        vouched_by=validators.host_of(head.url) if step in VOUCHED_FOR else None,
        vouched=None if step is Step.UNCHANGED else _vouched(head, again=digest == wanted.stored_digest),
        aliases=tuple(_met(wanted, head)),
    )


def _vouched(head: Head, *, again: bool) -> Vouched:
    said = validators.read(head)
    opaque = tuple(one.key for one in said if one.strength is Strength.OPAQUE)
    digests = tuple(one.key for one in said if one.strength is Strength.DIGEST)
    return Vouched(validators.host_of(head.url), digests, opaque, again)


def is_at_blocked(url: str) -> bool:
    """Whether nothing is mirrored from the host of a URL that a redirect leads to. Raises DatabaseError."""
    return blocking.is_blocked(targets.parse(url, max_bytes=targets.MAX_HOP_BYTES).host)


def _leads_to_blocked(outcome: Fetched | NotModified | Dropped) -> bool:
    """Whether it was redirected to such a host. Nobody is asked there, unless it was blocked just then."""
    head = outcome.head
    reached = outcome.onward if isinstance(outcome, Dropped) and outcome.onward else head.url
    return bool(head.hops) and is_at_blocked(reached)


def _met(wanted: Wanted, head: Head) -> Iterator[Source]:
    """The URLs on the way, but the wanted one."""
    if not head.hops:
        return
    rules = current_rules()
    for url in dict.fromkeys((*(hop.url for hop in head.hops), head.url)):
        try:
            found = canonical(url, rules)
        except UrlError:
            continue
        if found.digest != wanted.source.url_digest:
            yield Source(found.digest, url, found.host)


def _failed(wanted: Wanted, outcome: Failed) -> Lost:
    attempts = wanted.attempts + 1
    is_signed = wanted.row is not None and wanted.row.expires_at is not None
    failure, detail = deciding.failure_of(outcome, is_signed=is_signed).value, outcome.detail
    if deciding.is_final(outcome, attempts, conf.attempts()):
        return lost(wanted, failure, detail, outcome.status)
    pause = max(conf.retry_after(attempts), timedelta(seconds=outcome.retry_after_seconds or 0))
    return Lost(
        wanted.source,
        State.WANTED,
        _now(),
        failure,
        detail,
        outcome.status,
        attempts,
        due_at=_now() + pause,
        blob_digest=wanted.stored_digest,
    )


def lost(wanted: Wanted, failure: str, detail: str, status: int | None = None) -> Lost:
    """For good. What was stored before stays."""
    row, digest = wanted.row, wanted.stored_digest
    state, step = (State.STORED, row.step) if row and digest else (State.FAILED, Step.FAILED)
    return Lost(
        wanted.source, state, _now(), failure, detail, status, wanted.attempts + 1, blob_digest=digest, step=step
    )


def _now() -> datetime:
    return datetime.now(UTC)
