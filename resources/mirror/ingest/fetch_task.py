"""The fetchers' task for mirrored files: builds the request, and stores the answer.

Sends nothing itself: the fetcher does, between `fetch` and `prepare`. Rows are the truth: the content that
`prepare` returns only ends the work.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock

from django.conf import settings
from django.db import Error as DatabaseError

from resources.fetch.conf import fast_limits, slow_limits
from resources.fetch.http.messages import (
    BodyDropped,
    Fetched,
    FetchError,
    FetchFailed,
    FetchRequest,
    Head,
    NotModified,
    is_sendable,
)
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from .. import hosts
from ..errors import WriteError
from ..hosts import HostRecord
from ..models import Resource, UrlState
from ..storage import retention
from . import dedupe, settlement, url_outcome, writer
from .settlement import REPEAT_SECONDS, FetchedBody, FetchTarget
from .url_outcome import FoundContent, NothingFound, UrlOutcome
from .wanted_urls import url_content_key

MAX_IN_FLIGHT = 1000
"""More than the slots of a fetcher. URLs that never came back make room for new ones."""


class InFlight:
    """URLs in flight, by the arguments of their work. Their rows may be outdated."""

    def __init__(self, most: int = MAX_IN_FLIGHT) -> None:
        self._wanted: dict[tuple[Argument, ...], FetchTarget] = {}
        self._most = most
        self._lock = Lock()

    def note(self, arguments: tuple[Argument, ...], wanted: FetchTarget) -> None:
        """Notes a URL. The oldest one goes if there are too many."""
        with self._lock:
            self._wanted.pop(arguments, None)
            self._wanted[arguments] = wanted
            if len(self._wanted) > self._most:
                del self._wanted[next(iter(self._wanted))]

    def take(self, arguments: tuple[Argument, ...]) -> FetchTarget | None:
        """Removes and returns the noted URL; None if none was noted, or it had to make room."""
        with self._lock:
            return self._wanted.pop(arguments, None)


READY_SECONDS = 10
"""Lifetime of the content that ends the work. The row lasts longer."""
RECORD_MARGIN_SECONDS = 5.0
"""A failure record ends this long before its row is due: else the next attempt would meet it."""


CallPlan = FetchRequest | Mapping[str, Prepared] | PreparationError
"""The answer for a URL of many: a request, or content that is there, or the error that `fetch` raises."""


class MirrorTask:
    """The task `resources.mirror`. Its arguments are the URL and the digest of its canonical URL."""

    obeys_robots = False
    """A user reported this very URL. robots.txt is for robots that find their own way."""

    is_fenced = True
    """The row has the token of the claim that wrote its outcome."""

    def __init__(self) -> None:
        self._asked = InFlight()

    def fetch(self, *arguments: Argument, token: int = 0) -> FetchRequest | Mapping[str, Prepared]:
        """Returns the request with the stored content's validators, or settled content. Raises PreparationError."""
        return self._plan(arguments, _repair_target(arguments, FetchTarget.read(arguments, token)))

    def fetch_many(self, calls: Sequence[tuple[tuple[Argument, ...], int]]) -> list[CallPlan]:
        """Does the same for many URLs, with a query for the rows and one for the hosts."""
        try:
            rows = FetchTarget.read_rows([str(arguments[1]) for arguments, _ in calls])
            hosts.recall_hosts(_authorities(str(arguments[0]) for arguments, _ in calls))
        except DatabaseError as error:
            return [_unreadable_error(error)] * len(calls)
        plans = list[CallPlan]()
        for arguments, token in calls:
            try:
                wanted = FetchTarget.of(arguments, token, rows.get(str(arguments[1])))
                plans.append(self._plan(arguments, _repair_target(arguments, wanted)))
            except PreparationError as error:
                plans.append(error)
        return plans

    def _plan(self, arguments: tuple[Argument, ...], wanted: FetchTarget) -> FetchRequest | Mapping[str, Prepared]:
        row = wanted.row
        if row is not None and row.state == UrlState.STORED:  # by a redirect of another URL, say
            return _ready_content(wanted, row.blob_digest)
        if row is not None and row.state == UrlState.FAILED:
            text = _sentence(url_outcome.describe_failure(row.failure, row.detail))
            raise PreparationError(text, retry_seconds=REPEAT_SECONDS)
        try:
            host = hosts.recall_host(dedupe.url_authority(wanted.source.url))
            blocked = hosts.is_host_blocked(wanted.source.host)
            stored = row if row and settlement.has_blob_at_hand(row.blob_digest) else None
        except DatabaseError as error:
            raise settlement.unreadable_error() from error
        except FetchError as error:
            _write_outcome(settlement.give_up_url(wanted, error.failure.value, error.detail))
            text = _sentence(url_outcome.describe_failure(error.failure.value, error.detail))
            raise PreparationError(text, retry_seconds=REPEAT_SECONDS) from error
        if blocked:
            _write_outcome(settlement.give_up_url(wanted, hosts.BLOCKED_FAILURE, hosts.BLOCKED_DETAIL.rstrip(".")))
            raise PreparationError(hosts.BLOCKED_DETAIL, status=404, retry_seconds=REPEAT_SECONDS)
        self._asked.note(arguments, wanted)
        return _build_request(wanted, host, stored)

    def prepare(
        self, outcome: Fetched | NotModified | BodyDropped | FetchFailed, *arguments: Argument, token: int = 0
    ) -> "Future[Mapping[str, Prepared]]":
        """Stores the outcome and has it written. Leaves the body's file to the fetcher. Raises PreparationError."""
        noted = self._asked.take(arguments)
        is_plain = isinstance(outcome, Fetched) and not outcome.head.hops  # other outcomes need the present row
        wanted = noted.with_token(token) if noted and is_plain else FetchTarget.read(arguments, token)
        try:
            settled = settlement.settle_fetch(wanted, outcome)
        except DatabaseError as error:
            raise settlement.unreadable_error() from error
        return _hand_in(wanted, outcome, settled)

    def hand_over(
        self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument, token: int = 0
    ) -> "Future[Mapping[str, Prepared]] | None":
        """Has a body in memory stored, with those of other URLs. Other outcomes need the present row, or the disk."""
        if not isinstance(outcome, Fetched) or outcome.head.hops or outcome.body.data is None:
            return None
        noted = self._asked.take(arguments)
        if noted is None:
            return None
        wanted = noted.with_token(token)
        return _hand_in(wanted, outcome, FetchedBody(wanted, outcome))

    def may_know(self, head: Head) -> bool:
        return dedupe.has_validators(head)

    def is_known(self, head: Head, *arguments: Argument) -> bool:
        """Tells whether the body can be spared: believed validators name a content here, and it is not sampled."""
        wanted = FetchTarget.read(arguments)
        trust = settlement.host_trust(hosts.read_host(dedupe.url_authority(head.url)))
        found = settlement.digest_by_head(head, trust)
        if found is None or found == wanted.stored_digest:
            return found is not None
        first, every = settings.MIRROR_SAMPLED_FIRST, settings.MIRROR_SAMPLED_EVERY
        return not dedupe.is_sampled(trust, first=first, every=every, luck=random.random())

    def stops_before(self, url: str, *arguments: Argument) -> bool:
        """Tells whether a redirect leads to a blocked host, or to a URL whose content is here."""
        if settlement.is_url_blocked(url):
            return True
        return settlement.find_row_of_redirect(url, FetchTarget.read(arguments).source) is not None

    def refuses_head(self, url: str) -> None:
        """Records that the host of this URL does not answer HEAD as it answers GET."""
        hosts.record_refused_heads(dedupe.url_authority(url))


TASK = MirrorTask()


def _authorities(urls: Iterable[str]) -> set[str]:
    """Returns the hosts that vouch for the URLs, without those of URLs that cannot be requested."""
    found = set[str]()
    for url in urls:
        with suppress(FetchError):
            found.add(dedupe.url_authority(url))
    return found


def _unreadable_error(cause: DatabaseError) -> PreparationError:
    error = settlement.unreadable_error()
    error.__cause__ = cause
    return error


def _repair_target(arguments: tuple[Argument, ...], wanted: FetchTarget) -> FetchTarget:
    """Wants the URL again if its blob is missing, and returns it as it is then. Raises PreparationError."""
    try:
        if wanted.row is None or wanted.row.state != UrlState.STORED or settlement.has_blob(wanted.row.blob_digest):
            return wanted
        retention.want_urls_again([wanted.row.pk], datetime.now(UTC))
    except DatabaseError as error:
        raise settlement.unreadable_error() from error
    return FetchTarget.read(arguments, wanted.source.token)


def _build_request(wanted: FetchTarget, host: HostRecord, stored: Resource | None) -> FetchRequest:
    referer = wanted.row.referer if wanted.row else ""
    pays = dedupe.asks_head_first(host.asked, host.spared, wanted.lane)
    return FetchRequest(
        wanted.source.url,
        headers={"Referer": referer} if referer and is_sendable(referer) else {},
        etag=(stored.etag or None) if stored else None,
        last_modified=(stored.last_modified or None) if stored else None,
        validated_url=(stored.moved_to or None) if stored else None,
        limits=fast_limits(),
        slow_limits=slow_limits(),
        head_first=pays and stored is None and not host.heads_refused and not host.lies,
    )


def _write_outcome(outcome: UrlOutcome) -> UrlOutcome:
    """Returns the outcome as it was written. Raises PreparationError if the fetch has to be repeated."""
    return _await_written(writer.process_writer().hand_in(outcome))


def _await_written(outcome: "Future[UrlOutcome]") -> UrlOutcome:
    try:
        return outcome.result()
    except WriteError as error:
        raise PreparationError(str(error), status=503, retry_seconds=REPEAT_SECONDS) from error


def _hand_in(
    wanted: FetchTarget,
    outcome: Fetched | NotModified | BodyDropped | FetchFailed,
    settled: UrlOutcome | FetchedBody,
) -> "Future[Mapping[str, Prepared]]":
    """Hands the settled outcome, or the body, to the writer. Returns a future of the content that ends the work."""
    ended: Future[Mapping[str, Prepared]] = Future()
    ended.set_running_or_notify_cancel()  # it cannot be cancelled

    def end(written: "Future[UrlOutcome]") -> None:
        try:
            ended.set_result(_end_work(wanted, outcome, written))
        except Exception as error:  # noqa: BLE001  the edge of a thread: passed on to the fetcher
            ended.set_exception(error)

    writer.process_writer().hand_in(settled).add_done_callback(end)
    return ended


def _end_work(
    wanted: FetchTarget, outcome: Fetched | NotModified | BodyDropped | FetchFailed, order: "Future[UrlOutcome]"
) -> Mapping[str, Prepared]:
    """Returns the content for the fetcher once the outcome was written. Raises PreparationError."""
    written = _await_written(order)
    if isinstance(written, FoundContent):
        return _ready_content(wanted, written.blob_digest)
    raise _preparation_error(written, outcome)


def _ready_content(wanted: FetchTarget, blob_digest: str) -> Mapping[str, Prepared]:
    return {url_content_key(wanted.source.url_digest): Prepared(blob_digest.encode(), "text/plain", READY_SECONDS, 0)}


def _preparation_error(
    written: NothingFound, outcome: Fetched | NotModified | BodyDropped | FetchFailed
) -> PreparationError:
    """Returns the error for clients with its duration. The row keeps it."""
    status = dedupe.failure_status(outcome) if isinstance(outcome, FetchFailed) else 404
    wait_seconds = REPEAT_SECONDS
    if written.due_at is not None and written.state is UrlState.WANTED:
        wait_seconds = (written.due_at - datetime.now(UTC)).total_seconds()
        wait_seconds -= min(RECORD_MARGIN_SECONDS, wait_seconds / 2)
    text = _sentence(url_outcome.describe_failure(written.failure, written.detail).capitalize())
    return PreparationError(text, status=status, retry_seconds=max(1.0, wait_seconds))


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}."
