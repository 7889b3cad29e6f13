"""The fetchers' task that mirrors: what is asked of an origin, and what becomes of the answer.

Sends nothing itself: the fetcher does, between `fetch` and `prepare`. Rows are the truth: the content that `prepare`
returns only ends the work.
"""

import random
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import UTC, datetime

from django.db import Error as DatabaseError

from resources.fetching.conf import fast_limits, slow_limits
from resources.fetching.errors import FetchError
from resources.fetching.outcomes import Dropped, Failed, Fetched, Head, NotModified
from resources.fetching.requests import Fetch, is_sendable
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from .. import conf
from ..errors import WriteError
from ..knowing import hosts
from ..knowing.found import Found, Lost, Outcome
from ..knowing.hosts import Host
from ..knowing.models import Resource, State
from ..storing import losing
from ..writing import blocking, telling, writer
from . import deciding, settling, validators
from .asked import Asked
from .wanted import AGAIN_SECONDS, Wanted, is_at_hand, is_blob, known_at, known_by, trust_in, unreadable
from .work import content_key

READY_SECONDS = 10
"""How long the content that ends the work says so. The row says it for longer."""
RECORD_MARGIN_SECONDS = 5.0
"""A failure record ends before its row is due: else the next attempt would meet it."""


class Mirror:
    """The task `resources.mirror`. Its arguments are the URL and the digest of its canonical form."""

    obeys_robots = False
    """Somebody reported this very URL. Robots that find their own way are what robots.txt is for."""

    def __init__(self) -> None:
        self._asked = Asked()

    def fetch(self, *arguments: Argument) -> Fetch | Mapping[str, Prepared]:
        """The request, with the validators of what is stored; the end of the work, if it was settled meanwhile.

        Raises PreparationError.
        """
        wanted = _as_it_is(arguments)
        row = wanted.row
        if row is not None and row.state == State.STORED:  # by a redirect of another URL, say
            return _ready(wanted, row.blob_digest)
        if row is not None and row.state == State.FAILED:
            said = _sentence(telling.told(row.failure, row.detail))
            raise PreparationError(said, retry_seconds=AGAIN_SECONDS)
        try:
            host = hosts.as_it_was(validators.host_of(wanted.source.url))
            blocked = blocking.is_blocked(wanted.source.host)
            stored = row if row and is_at_hand(row.blob_digest) else None
        except DatabaseError as error:
            raise unreadable() from error
        except FetchError as error:
            _write(settling.lost(wanted, error.failure.value, error.detail))
            said = _sentence(telling.told(error.failure.value, error.detail))
            raise PreparationError(said, retry_seconds=AGAIN_SECONDS) from error
        if blocked:
            _write(settling.lost(wanted, blocking.FAILURE, blocking.SAID.rstrip(".")))
            raise PreparationError(blocking.SAID, status=404, retry_seconds=AGAIN_SECONDS)
        self._asked.note(arguments, wanted)
        return _request(wanted, host, stored)

    def prepare(
        self, outcome: Fetched | NotModified | Dropped | Failed, *arguments: Argument
    ) -> "Future[Mapping[str, Prepared]]":
        """Stores what came, and has it written. Leaves the body's file to the fetcher. Raises PreparationError."""
        noted = self._asked.take(arguments)
        is_plain = isinstance(outcome, Fetched) and not outcome.head.hops  # else what the row says counts, as it is now
        wanted = noted if noted and is_plain else Wanted.read(arguments)
        try:
            settled = settling.settled(wanted, outcome)
        except DatabaseError as error:
            raise unreadable() from error
        ended: Future[Mapping[str, Prepared]] = Future()
        ended.set_running_or_notify_cancel()  # nobody can call it off

        def end(written: "Future[Outcome]") -> None:
            try:
                ended.set_result(_end(wanted, outcome, written))
            except Exception as error:  # noqa: BLE001  the edge of a thread: told to who waits
                ended.set_exception(error)

        writer.current().hand_in(settled).add_done_callback(end)
        return ended

    def may_know(self, head: Head) -> bool:
        """Whether the head has any validators."""
        return bool(validators.read(head))

    def is_known(self, head: Head, *arguments: Argument) -> bool:
        """Whether the body can be spared: validators say that its content is here, and are believed this time."""
        wanted = Wanted.read(arguments)
        trust = trust_in(hosts.as_it_is(validators.host_of(head.url)))
        found = known_by(head, trust)
        if found is None or found == wanted.stored_digest:
            return found is not None
        first, every = conf.sampled_first(), conf.sampled_every()
        return not deciding.is_sampled(trust, first=first, every=every, luck=random.random())

    def stops_before(self, url: str, *arguments: Argument) -> bool:
        """Whether a redirect leads to a host that nothing is mirrored from, or to a URL whose content is here."""
        return settling.is_at_blocked(url) or known_at(url, str(arguments[1])) is not None

    def refuses_head(self, url: str) -> None:
        """Remembers that the host of this URL does not answer HEAD as it answers GET."""
        hosts.refuses_heads(validators.host_of(url))


TASK = Mirror()


def _as_it_is(arguments: tuple[Argument, ...]) -> Wanted:
    """As its row says, unless that points at nothing: then it is wanted again. Raises PreparationError."""
    wanted = Wanted.read(arguments)
    try:
        if wanted.row is None or wanted.row.state != State.STORED or is_blob(wanted.row.blob_digest):
            return wanted
        losing.want_again([wanted.row.pk], datetime.now(UTC))
    except DatabaseError as error:
        raise unreadable() from error
    return Wanted.read(arguments)


def _request(wanted: Wanted, host: Host, stored: Resource | None) -> Fetch:
    referer = wanted.row.referer if wanted.row else ""
    pays = deciding.asks_head_first(host.asked, host.spared, wanted.lane)
    return Fetch(
        wanted.source.url,
        headers={"Referer": referer} if referer and is_sendable(referer) else {},
        etag=(stored.etag or None) if stored else None,
        last_modified=(stored.last_modified or None) if stored else None,
        validated_url=(stored.moved_to or None) if stored else None,
        limits=fast_limits(),
        slow_limits=slow_limits(),
        head_first=pays and stored is None and not host.heads_refused and not host.lies,
    )


def _write(outcome: Outcome) -> Outcome:
    """As it was written. Raises PreparationError when it has to be done again."""
    return _written(writer.current().hand_in(outcome))


def _written(outcome: "Future[Outcome]") -> Outcome:
    try:
        return outcome.result()
    except WriteError as error:
        raise PreparationError(str(error), status=503, retry_seconds=AGAIN_SECONDS) from error


def _end(
    wanted: Wanted, outcome: Fetched | NotModified | Dropped | Failed, order: "Future[Outcome]"
) -> Mapping[str, Prepared]:
    """What the fetcher is told once it was written. Raises PreparationError."""
    written = _written(order)
    if isinstance(written, Found):
        return _ready(wanted, written.blob_digest)
    raise _failure(written, outcome)


def _ready(wanted: Wanted, blob_digest: str) -> Mapping[str, Prepared]:
    return {content_key(wanted.source.url_digest): Prepared(blob_digest.encode(), "text/plain", READY_SECONDS, 0)}


def _failure(written: Lost, outcome: Fetched | NotModified | Dropped | Failed) -> PreparationError:
    """What clients are told, and for how long. The row keeps it."""
    status = deciding.status_of(outcome) if isinstance(outcome, Failed) else 404
    wait_seconds = AGAIN_SECONDS
    if written.due_at is not None:
        wait_seconds = (written.due_at - datetime.now(UTC)).total_seconds()
        wait_seconds -= min(RECORD_MARGIN_SECONDS, wait_seconds / 2)
    said = _sentence(telling.told(written.failure, written.detail).capitalize())
    return PreparationError(said, status=status, retry_seconds=max(1.0, wait_seconds))


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."
