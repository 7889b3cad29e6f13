"""Batches (reported lists of URLs) in the database: made, settled, counted, finished, and removed when they are old.

The rows are the truth. Every step may be repeated, also by several processes at once: all counts are of rows, and
a batch is finished when none of its items is open.

Settling is debounced: batches are settled every two seconds, not per URL. Writers of ended URLs leave the names of
the batches in `state`; batches whose names are lost are healed.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast
from uuid import UUID, uuid4

from django.db import IntegrityError, connection, transaction
from django.db.models import Case, CharField, Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When
from redis.exceptions import RedisError

from resources import database
from resources.fetch.http import url_syntax
from resources.tokens.models import ApiToken
from retry import stores

from ..ingest import url_outcome, wanted_urls
from ..ingest.wanted_urls import WantedUrl
from ..lookup import BATCH_PREFIX, UNSETTLED_BATCHES_KEY
from ..models import MAX_URL_CHARACTERS, Batch, BatchItem, DedupeStep, Resource, UrlState
from .classify import JOINED_DETAIL, UrlDecision, storable_text

SAME_LIST_TIME = timedelta(days=1)
"""The time within which the same list, sent again, is the same batch."""

YOUNG_BATCH_AGE = timedelta(minutes=1)
"""A batch of this age may not have asked yet for all its URLs."""

SLICE_ROWS = 1000
MAX_DETAIL_CHARACTERS = 500
_ITEM_COLUMNS = ("batch_id", "position", "url", "url_digest", "step", "blob_digest", "detail")


@dataclass(frozen=True, slots=True)
class SentList:
    """A list as it was sent. `sender` is a name for people; `key` tells equal lists from others."""

    urls: Sequence[str]
    sender: str
    referer: str = ""
    webhook: str = ""
    token: ApiToken | None = None
    idempotency_key: str = ""

    @property
    def key(self) -> str:
        """The digest of the idempotency key, else of the whole list; each sender has its own."""
        who = self.token.digest if self.token else self.sender
        parts = [self.idempotency_key] if self.idempotency_key else [self.referer, self.webhook, *self.urls]
        text = json.dumps([who, bool(self.idempotency_key), *parts])  # as ASCII, with any URL
        return hashlib.sha256(text.encode()).hexdigest()


def find_batch(sent: SentList, now: datetime) -> Batch | None:
    """Returns the batch of the same list, sent before within a day."""
    return Batch.objects.filter(key=sent.key, created_at__gt=now - SAME_LIST_TIME).order_by("-created_at").first()


def has_due_failures(batch: Batch, now: datetime) -> bool:
    """Tells whether a URL failed in this finished batch, and a report has it tried again."""
    failed = Resource.objects.filter(url_digest=OuterRef("url_digest"), state=UrlState.FAILED)
    due = failed.filter(wanted_urls.past_due(now))
    items = BatchItem.objects.filter(batch=batch, step=DedupeStep.FAILED)
    if batch.finished_at is None or not items.exists():
        return False
    others = (want_item(batch, item, now) for item in items)
    return items.filter(Exists(due)).exists() or bool(wanted_urls.find_other_requests(others, now))


def create_batch(sent: SentList, decisions: Sequence[UrlDecision], now: datetime) -> Batch | None:
    """Writes a batch with its items, all or nothing. None: another request has sent the same list at the same time."""
    batch = Batch(
        id=_next_batch_id(sent),
        sender=sent.sender,
        token=sent.token,
        key=sent.key,
        referer=sent.referer,
        webhook=sent.webhook,
        total=len(decisions),
        created_at=now,
    )
    try:
        with transaction.atomic():
            batch.save(force_insert=True)
            _insert_items(batch, decisions)
    except IntegrityError:  # another request got there first
        return None
    return batch


def settle_named_batches(names: Iterable[str], now: datetime) -> int:
    """Settles ended items of the named batches; returns how many of these batches are finished."""
    return sum(settle_batch(batch_id, now) for name in names if (batch_id := _batch_id_of(name)))


def settle_batch(batch_id: UUID, now: datetime) -> bool:
    """Settles the ended items of one batch. True if it is finished."""
    ended = Resource.objects.filter(url_digest=OuterRef("url_digest")).exclude(state=UrlState.WANTED)
    items = find_open_items(batch_id).filter(Exists(ended))
    if items.exists():
        database.update_in_order(
            items.filter(detail=JOINED_DETAIL), **_settled_fields(ended, Value(DedupeStep.KNOWN.value))
        )
        database.update_in_order(items, **_settled_fields(ended, F("step")))
    return finish_batch(batch_id, now)


def finish_batch(batch_id: UUID, now: datetime) -> bool:
    """Finishes a batch without open items. True if it is finished, by this call or another."""
    batch = Batch.objects.filter(pk=batch_id)
    is_open = Exists(BatchItem.objects.filter(batch=OuterRef("pk"), step=""))
    batch.filter(~is_open, finished_at=None).update(
        finished_at=now, call_at=Case(When(~Q(webhook=""), then=Value(now)), default=None)
    )
    return batch.exclude(finished_at=None).exists()


def heal_batches(now: datetime, seconds: float) -> int:
    """Repairs unfinished batches for about `seconds`, beginning anywhere; returns how many there was time for.

    Settles items of batches whose names Redis lost, and asks for URLs that were not asked for.
    """
    until, done = time.monotonic() + seconds, 0
    for batch in _unfinished_batches():
        if time.monotonic() >= until:
            break
        if not settle_batch(batch.pk, now) and batch.created_at < now - YOUNG_BATCH_AGE:
            want_lost_urls(batch, now)
        done += 1
    return done


def want_lost_urls(batch: Batch, now: datetime) -> int:
    """Asks for the URLs of open items that have no row: the maker of the batch was killed, or the row was removed.

    Returns how many there were.
    """
    lost = find_open_items(batch.pk).exclude(Exists(Resource.objects.filter(url_digest=OuterRef("url_digest"))))
    items = list(lost[:SLICE_ROWS])
    if items:
        wanted_urls.want_urls([want_item(batch, item, now) for item in items])
    return len(items)


def want_item(batch: Batch, item: BatchItem, now: datetime) -> WantedUrl:
    """Returns the wish for the item's URL, as its list has it."""
    host = url_syntax.parse_target(item.url).host
    return WantedUrl(item.url_digest, item.url, host, batch.referer, now, batch.token_id or 0)


def find_open_items(batch_id: UUID) -> QuerySet[BatchItem]:
    return BatchItem.objects.filter(batch_id=batch_id, step="")


def has_wanted_items(batch_id: UUID) -> bool:
    """Tells whether an open item's URL is still wanted. Looks no further than to the first of them."""
    wanted = Resource.objects.filter(url_digest=OuterRef("url_digest"), state=UrlState.WANTED)
    return find_open_items(batch_id).filter(Exists(wanted)).exists()


def _next_batch_id(sent: SentList) -> UUID:
    """Returns an id that is the same for equal lists sent at once, so that only one of them becomes a batch."""
    before = Batch.objects.filter(key=sent.key).order_by("-created_at").values_list("id", flat=True).first()
    return UUID(bytes=hashlib.sha256(f"{sent.key} {before}".encode()).digest()[:16], version=4)


def _insert_items(batch: Batch, decisions: Sequence[UrlDecision]) -> None:
    """Inserts ten thousand rows at once, without a model for each: models took four times as long."""
    batch_id = BatchItem._meta.get_field("batch").get_db_prep_save(batch.pk, connection)
    rows = [
        (
            batch_id,
            one.position,
            storable_text(one.url, MAX_URL_CHARACTERS),
            one.url_digest,
            one.step,
            one.blob_digest,
            one.detail[:MAX_DETAIL_CHARACTERS],
        )
        for one in decisions
    ]
    table, places = connection.ops.quote_name(BatchItem._meta.db_table), ", ".join(["%s"] * len(_ITEM_COLUMNS))
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} ({', '.join(_ITEM_COLUMNS)}) VALUES ({places})", rows)  # noqa: S608


def _settled_fields(ended: QuerySet[Resource], step_if_stored: Value | F) -> dict[str, Subquery]:
    """Returns the fields of an item, taken from the row of its URL."""
    step = Case(
        When(state=UrlState.FAILED, then=Value(DedupeStep.FAILED.value)),
        When(step="", then=Value(DedupeStep.KNOWN.value)),
        default=step_if_stored,
        output_field=CharField(),
    )
    blob = Case(When(state=UrlState.FAILED, then=Value("")), default=F("blob_digest"))
    others = [
        When(state=UrlState.FAILED, failure=failure, then=Value(text))
        for failure, text in url_outcome.PUBLIC_REASONS.items()
    ]
    detail = Case(*others, When(state=UrlState.FAILED, then=F("detail")), default=Value(""))
    named = {"step": step, "blob_digest": blob, "detail": detail}
    return {name: Subquery(ended.annotate(found=found).values("found")[:1]) for name, found in named.items()}


def _batch_id_of(name: str) -> UUID | None:
    try:
        return UUID(name.removeprefix(BATCH_PREFIX)) if name.startswith(BATCH_PREFIX) else None
    except ValueError:
        return None


def _unfinished_batches() -> Iterable[Batch]:
    """Yields all unfinished batches, beginning anywhere: so each gets its turn, even with little time."""
    start = uuid4()
    rows = Batch.objects.filter(finished_at=None).order_by("pk")
    yield from rows.filter(pk__gte=start).iterator(SLICE_ROWS)
    yield from rows.filter(pk__lt=start).iterator(SLICE_ROWS)


MAX_NAMES_AT_ONCE = 500


def take_batch_names() -> list[str]:
    try:
        found = cast(list[bytes], stores.fast_client("state").spop(UNSETTLED_BATCHES_KEY, MAX_NAMES_AT_ONCE))
    except RedisError:
        return []
    return [name.decode() for name in found]


OPEN_STEP = ""
"""The step of items that are not settled."""

STORED_STEPS = frozenset(step.value for step in DedupeStep) - {DedupeStep.FAILED.value, DedupeStep.REFUSED.value}
"""Steps that end with a file."""


def count_settled_items(*batch_ids: UUID) -> dict[str, int]:
    """Counts the items that each step has settled, without open ones; in the order of models.Step."""
    counts = count_items(*batch_ids)
    return {step.value: counts[step.value] for step in DedupeStep if step.value in counts}


def count_items(*batch_ids: UUID) -> Mapping[str, int]:
    """Counts the items by step, with the open ones under OPEN_STEP."""
    rows = BatchItem.objects.filter(batch__in=batch_ids).order_by().values_list("step").annotate(number=Count("*"))
    return dict(rows)


def describe_webhook(batch: Batch, now: datetime) -> str:
    """Returns a sentence about the webhook; empty for a batch without one."""
    if not batch.webhook:
        return ""
    if batch.told_at:
        return f"{batch.answer.capitalize()}, after {_calls_in_words(batch.calls)}."
    if batch.finished_at is None:
        return "Called when the list is finished."
    if not batch.calls:
        return "Being called."
    wait_seconds = max(0, (batch.call_at - now).total_seconds()) if batch.call_at else 0
    return f"{_calls_in_words(batch.calls).capitalize()} so far: {batch.answer}. Next call in {wait_seconds:,.0f} s."


def _calls_in_words(number: int) -> str:
    return "1 call" if number == 1 else f"{number:,} calls"
