"""Writes outcomes in batches: many threads of a process hand them in, one thread writes them, with small bodies.

While one batch is being written the next one gathers, so that a busy process writes large batches and an idle one
never waits.

The order is: blobs, rows of URLs, validators; then their status in Redis, counts, and batches. The bytes are stored
before, those of a batch together. Each statement is a transaction of its own and has its rows in the order of their
keys, so that two writers of the same rows wait for each other, and never in a circle. A repeated write gives the same
rows.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

from django.conf import settings
from django.db import DataError, IntegrityError, connection
from django.db import Error as DatabaseError
from django.db.models import Q

from resources import database
from retry.errors import PreparationError

from .. import hosts, lookup, stats
from ..errors import WriteError
from ..hosts import HostEvidence
from ..lookup import UrlStatus
from ..models import Blob, DedupeStep, MirroredHost, Resource, UrlState, Validator
from ..storage import takedown
from ..storage.blobs import is_storage_remote
from . import due_times, settlement, url_outcome, wanted_urls
from .settlement import FetchedBody
from .url_outcome import FoundContent, NothingFound, SourceUrl, UrlOutcome, VouchedContent


def flush_outcomes(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
    """Writes the batch. Returns the outcomes in the same order, each with the step that settled it.

    If a redirect of another URL, or a later claim, has stored a URL meanwhile, its outcome says so.
    Raises DatabaseError.
    """
    blobs = _write_blobs([one for one in batch if isinstance(one, FoundContent)])
    with_steps = _assign_steps(batch, blobs)
    found = [one for one in with_steps if isinstance(one, FoundContent)]
    aliases = _alias_outcomes(found)
    written = [*aliases, *found]
    overtaken = url_outcome.upsert_found(written, blobs)
    lost = [one for one in with_steps if isinstance(one, NothingFound)]
    overtaken |= url_outcome.upsert_lost(lost)
    _write_validators(found, now)
    ended: list[UrlOutcome] = [*written, *lost]
    _announce_outcomes([one for one in ended if one.source.url_digest not in overtaken], now)
    for digest in sorted(takedown.find_taken_down({one.blob_digest for one in found})):
        # Taken down meanwhile, after the takedown had looked for its URLs.
        takedown.fail_urls(digest, sorted({one.source.url_digest for one in written if one.blob_digest == digest}))
    return [_final_outcome(one, overtaken) for one in with_steps]


def _final_outcome(one: UrlOutcome, overtaken: Mapping[str, UrlStatus]) -> UrlOutcome:
    stands = overtaken.get(one.source.url_digest)
    if stands and stands.state is UrlState.STORED:
        return FoundContent(one.source, stands.blob_digest, one.at, step=DedupeStep.REDIRECT)
    return one


_BLOB_FIELDS = [field.attname for field in Blob._meta.concrete_fields]


def _write_blobs(found: Sequence[FoundContent]) -> dict[str, Blob]:
    """Upserts the blobs whose bytes came. Returns all blobs of these outcomes as they are now.

    Updates `accessed_at`, so that pruning leaves wanted blobs alone.
    """
    rows: dict[str, Blob] = {}
    for one in found:
        if one.contents and one.blob_digest not in rows:
            rows[one.blob_digest] = _blob_row(one)
    ordered = ([getattr(rows[digest], name) for name in _BLOB_FIELDS] for digest in sorted(rows))
    database.insert_rows(
        Blob, _BLOB_FIELDS, ordered, "ON CONFLICT (digest) DO UPDATE SET accessed_at = EXCLUDED.accessed_at"
    )
    if is_storage_remote():  # their former holder may be gone for good, with all bytes not uploaded
        held = Blob.objects.filter(digest__in=rows, uploaded_at=None, taken_down_at=None)
        database.update_in_order(held.exclude(holder=settings.MACHINE), holder=settings.MACHINE)
    spared = sorted({one.blob_digest for one in found if not one.contents} - rows.keys())
    if spared:
        database.update_in_order(Blob.objects.filter(digest__in=spared), accessed_at=max(one.at for one in found))
    fields = ("digest", "holder", "stored_at", "taken_down_at", "media_type", "size")
    return Blob.objects.only(*fields).in_bulk({one.blob_digest for one in found})


def _blob_row(found: FoundContent) -> Blob:
    blob = found.contents
    assert blob is not None
    blob.holder, blob.stored_at, blob.accessed_at = settings.MACHINE, found.at, found.at
    blob.uploaded_at = None if is_storage_remote() else found.at
    return blob


def _assign_steps(batch: Sequence[UrlOutcome], blobs: Mapping[str, Blob]) -> list[UrlOutcome]:
    """Assigns the steps. A body is new if its blob's row was just written, by its microsecond and its machine."""
    stayed = {one.blob_digest for one in batch if isinstance(one, NothingFound) and one.blob_digest}
    there = set(Blob.objects.filter(pk__in=stayed).values_list("pk", flat=True)) if stayed else stayed
    assigned: list[UrlOutcome] = []
    new = set[str]()
    for one in batch:
        blob = blobs.get(one.blob_digest) if isinstance(one, FoundContent) else None
        if isinstance(one, NothingFound):
            assigned.append(one if one.state is UrlState.FAILED or one.blob_digest in there else _remove_content(one))
        elif blob is None:  # removed meanwhile: the URL is fetched again
            assigned.append(
                NothingFound(one.source, UrlState.WANTED, one.at, "gone", "its content was removed", due_at=one.at)
            )
        elif blob.taken_down_at is not None:
            assigned.append(url_outcome.taken_down_outcome(one.source, one.blob_digest, one.at, one.status))
        elif one.contents is None:
            assigned.append(one)
        else:
            is_new = (blob.stored_at, blob.holder) == (one.at, settings.MACHINE) and one.blob_digest not in new
            if is_new:
                new.add(one.blob_digest)
            assigned.append(replace(one, step=DedupeStep.NEW if is_new else DedupeStep.CONTENT))
    return assigned


def _remove_content(lost: NothingFound) -> NothingFound:
    """Removes the earlier content from the outcome: its blob is gone."""
    if lost.state is UrlState.STORED:
        due_at = due_times.next_try_at(lost.failure, lost.status, lost.rounds, lost.at)
        return replace(lost, state=UrlState.FAILED, step=DedupeStep.FAILED, blob_digest="", due_at=due_at)
    return replace(lost, blob_digest="")


def _alias_outcomes(found: Iterable[FoundContent]) -> list[FoundContent]:
    """Returns outcomes for the URLs met on the way, except those with content of their own, even taken down."""
    sources = {source.url_digest: (source, one) for one in found for source in one.aliases}
    own = {one.source.url_digest for one in found}
    asked = sorted(sources.keys() - own)
    if not asked:
        return []
    own_rows = Q(state=UrlState.STORED) | Q(failure=takedown.TAKEN_DOWN_FAILURE)
    settled = set(Resource.objects.filter(own_rows, pk__in=asked).values_list("pk", flat=True))
    return [_alias_outcome(*sources[digest]) for digest in asked if digest not in settled]


def _alias_outcome(source: SourceUrl, one: FoundContent) -> FoundContent:
    known = replace(one, source=source, contents=None, step=DedupeStep.REDIRECT)
    if one.moved_to in {"", source.url}:  # the last on the way: the validators are its own
        return replace(known, moved_to="")
    return replace(known, etag="", last_modified="")


def _write_validators(found: Sequence[FoundContent], now: datetime) -> None:
    """Writes the validators of origins, and checks them against the bodies downloaded all the same."""
    vouching = [(one, one.vouched) for one in found if one.vouched]
    if not vouching:
        return
    vouching_hosts = {vouched.host for _, vouched in vouching}
    liars = set(MirroredHost.objects.filter(pk__in=vouching_hosts, lies__gt=0).values_list("pk", flat=True))
    for host in sorted({vouched.host for one, vouched in vouching if vouched.host in liars and not one.contents}):
        hosts.distrust_host(host, now, hosts.DISTRUST_SECONDS)  # this process believed the host until just now
    vouching = [(one, vouched) for one, vouched in vouching if vouched.host not in liars]
    keys = {key for _, vouched in vouching for key in vouched.keys}
    known = dict(Validator.objects.filter(pk__in=keys).values_list("pk", "blob_digest"))
    new: dict[str, Validator] = {}
    learnt: dict[str, HostEvidence] = {}
    for one, vouched in vouching:
        learnt[vouched.host] = _add_evidence(learnt.get(vouched.host, HostEvidence()), one, vouched, known)
        for key in vouched.keys if one.contents else ():
            if key not in known:
                known[key] = one.blob_digest
                new[key] = Validator(key=key, host=vouched.host, blob_digest=one.blob_digest, seen_at=now)
    Validator.objects.bulk_create([new[key] for key in sorted(new)], ignore_conflicts=True)
    hosts.record_evidence(learnt, now)


def _add_evidence(
    so_far: HostEvidence, one: FoundContent, vouched: VouchedContent, known: Mapping[str, str]
) -> HostEvidence:
    """Adds evidence. A download shows whether the origin was right; repeated content proves nothing of others."""
    expected = {known[key] for key in vouched.keys if key in known}
    lied = one.contents is not None and bool(expected - {one.blob_digest})
    right = one.contents is not None and not lied and not vouched.again
    return HostEvidence(
        asked=so_far.asked + 1,
        spared=so_far.spared + bool(expected and not lied),
        confirmed=so_far.confirmed + (right and any(key in known for key in vouched.digests)),
        confirmed_opaque=so_far.confirmed_opaque + (right and any(key in known for key in vouched.opaque)),
        lies=so_far.lies + lied,
    )


def _announce_outcomes(outcomes: Sequence[UrlOutcome], now: datetime) -> None:
    lookup.note_statuses({one.source.url_digest: _outcome_status(one) for one in outcomes})
    steps = Counter(_tallied_step(one) for one in outcomes if one.step)
    steps[stats.BODY_STEP] = sum(isinstance(one, FoundContent) and one.contents is not None for one in outcomes)
    for step, number in sorted(steps.items()):
        stats.count_urls(step, number, now)
    lookup.resume_batches([one.source.url_digest for one in outcomes if not _is_still_wanted(one)])


def _tallied_step(one: UrlOutcome) -> str:
    """Returns the step to count: a failed check counts as a failure, though its row keeps the step of its content."""
    return str(DedupeStep.FAILED if isinstance(one, NothingFound) else one.step)


def _is_still_wanted(one: UrlOutcome) -> bool:
    return isinstance(one, NothingFound) and one.state is UrlState.WANTED


def _outcome_status(one: UrlOutcome) -> UrlStatus:
    expires_at = wanted_urls.find_expiry(one.source.url)
    if isinstance(one, FoundContent):
        return UrlStatus(UrlState.STORED, one.blob_digest, due_at=one.due_at, expires_at=expires_at)
    detail = one.detail[: lookup.MAX_DETAIL_CHARACTERS]
    return UrlStatus(one.state, one.blob_digest, one.failure, detail, one.status, one.due_at, expires_at)


MAX_BATCH_OUTCOMES = 200
GATHER_SECONDS = 0.01
"""Time that the first of a batch waits for others: parallel downloads end at about the same time."""
PATIENCE_SECONDS = 10.0
"""Time for which writes are retried while the database is away. Then the fetches are repeated later."""
RETRY_PAUSE_SECONDS = 0.5
IDLE_SECONDS = 5.0
"""Idle time after which the thread ends, and its connection with it."""
REFUSED_ERRORS = (DataError, IntegrityError, ValueError, OverflowError)

Result = TypeVar("Result")

FlushBatch = Callable[[Sequence[UrlOutcome], datetime], list[UrlOutcome]]

_log = logging.getLogger("tarry.mirroring")


@dataclass(slots=True)
class _QueuedOutcome:
    """An outcome in the queue, or a body to store. `since` is when it was handed in, by the monotonic clock."""

    outcome: UrlOutcome | FetchedBody
    written: "Future[UrlOutcome]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class OutcomeWriter:
    """Writes outcomes in a thread that lives a little longer than there are any."""

    def __init__(self, flush: FlushBatch = flush_outcomes) -> None:
        self._flush = flush
        self._orders: SimpleQueue[_QueuedOutcome] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def hand_in(self, outcome: UrlOutcome | FetchedBody) -> "Future[UrlOutcome]":
        """Returns a future of the outcome as it was written, with the step that settled it, or of a WriteError.

        A body is stored before its outcome is written. If that fails, the future has a PreparationError.
        """
        order = _QueuedOutcome(outcome)
        with self._lock:
            self._orders.put(order)
            if self._thread is None:
                self._thread = Thread(target=self._run, daemon=True, name="writer")
                self._thread.start()
        return order.written

    def join(self) -> None:
        """Returns when its thread has ended for lack of work."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        try:
            while batch := self._gather():
                self._write(batch)
        finally:
            connection.close()

    def _gather(self) -> list[_QueuedOutcome]:
        """Returns the next batch; empty if none came for a while, and the thread ends."""
        try:
            batch = [self._orders.get(timeout=IDLE_SECONDS)]
        except Empty:
            with self._lock:
                if self._orders.empty():
                    self._thread = None
                    return []
            batch = [self._orders.get()]
        until = batch[0].since + GATHER_SECONDS
        while len(batch) < MAX_BATCH_OUTCOMES:
            try:
                batch.append(self._orders.get(timeout=max(0.0, until - time.monotonic())))
            except Empty:
                break
        return batch

    def _write(self, batch: Sequence[_QueuedOutcome]) -> None:
        try:
            stored = _insist(partial(_store_bodies, batch))
            written = _insist(lambda: self._flush([outcome for _, outcome in stored], datetime.now(UTC)))
        except REFUSED_ERRORS as error:
            if len(batch) == 1:
                _fail_batch(batch, error)
                return
            for order in batch:  # one by one: the database refuses one of them
                if not order.written.done():
                    self._write([order])
        except Exception as error:  # noqa: BLE001  the edge of a thread: passed on to all callers
            _fail_batch(batch, error)
        else:
            for (order, _), outcome in zip(stored, written, strict=True):
                order.written.set_result(outcome)


def _store_bodies(batch: Sequence[_QueuedOutcome]) -> list[tuple[_QueuedOutcome, UrlOutcome]]:
    """Stores the bodies of the batch: their outcomes take their places. Returns what to write. Raises DatabaseError."""
    bodies = {place: one for place, order in enumerate(batch) if isinstance(one := order.outcome, FetchedBody)}
    settled = settlement.settle_bodies(list(bodies.values())) if bodies else []
    for place, outcome in zip(bodies, settled, strict=True):
        if isinstance(outcome, PreparationError):
            batch[place].written.set_exception(outcome)
        else:
            batch[place].outcome = outcome
    return [
        (order, one) for order in batch if not (order.written.done() or isinstance(one := order.outcome, FetchedBody))
    ]


def _insist(write: Callable[[], Result]) -> Result:
    """Writes again and again while the database is away. Raises the error that stays."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return write()
        except REFUSED_ERRORS:
            raise
        except DatabaseError as error:
            connection.close()  # Django opens a new one
            if time.monotonic() > until:
                raise
            _log.warning("outcomes of fetches cannot be written now", extra={"error": str(error)})
        time.sleep(RETRY_PAUSE_SECONDS)


@cache
def process_writer() -> OutcomeWriter:
    """Returns the writer of this process."""
    return OutcomeWriter()


def _fail_batch(batch: Sequence[_QueuedOutcome], error: Exception) -> None:
    _log.error("outcomes of fetches were not written", extra={"files": len(batch), "error": str(error)})
    for order in batch:
        if order.written.done():
            continue
        failed = WriteError("What was fetched could not be written.")
        failed.__cause__ = error
        order.written.set_exception(failed)
