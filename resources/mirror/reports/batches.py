"""Lists of URLs in the database: made, settled, finished, and removed when they are old.

The rows are the truth. Everything here may be done again, at once, or by several: nothing is counted that the rows
do not say, and a list is finished when none of its items is open.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import IntegrityError, connection, transaction
from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Subquery, Value, When

from resources.api.models import ApiToken
from resources.fetching.addressing import targets

from ..knowing import continuing, ordering
from ..knowing.models import MOST_URL_CHARACTERS, Batch, BatchItem, Resource, State, Step
from ..writing import telling, wanting
from ..writing.wanting import Wanted
from .deciding import JOINED, Decision, storable

PREFIX = "batch:"
"""Of the names by which continuations know a list."""

SAME_FOR = timedelta(days=1)
"""Who sends the same again within this time gets the same list."""

YOUNG = timedelta(minutes=1)
"""A list of this age may not have asked yet for all that it wants."""

SLICE = 1000
MOST_DETAIL = 500
_COLUMNS = ("batch_id", "position", "url", "url_digest", "step", "blob_digest", "detail")


@dataclass(frozen=True, slots=True)
class Sent:
    """A list as it was sent. `sender` is who, for people; `key` tells the same from another."""

    urls: Sequence[str]
    sender: str
    referer: str = ""
    webhook: str = ""
    token: ApiToken | None = None
    idempotency_key: str = ""

    @property
    def key(self) -> str:
        """The digest of the key that was sent along, else of all that was sent; each sender has its own."""
        who = self.token.digest if self.token else self.sender
        told = [self.idempotency_key] if self.idempotency_key else [self.referer, self.webhook, *self.urls]
        text = json.dumps([who, bool(self.idempotency_key), *told])  # as ASCII, whatever a URL holds
        return hashlib.sha256(text.encode()).hexdigest()


def find(sent: Sent, now: datetime) -> Batch | None:
    """The list that was made when the same was sent before, within a day."""
    return Batch.objects.filter(key=sent.key, created_at__gt=now - SAME_FOR).order_by("-created_at").first()


def create(sent: Sent, decisions: Sequence[Decision], now: datetime) -> Batch | None:
    """The list with its items, all or nothing. None: somebody has sent the same at the same time."""
    batch = Batch(
        id=_next_id(sent),
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


def name_of(batch_id: UUID) -> str:
    """How a continuation names the list."""
    return f"{PREFIX}{batch_id}"


def settle(names: Iterable[str], now: datetime) -> int:
    """Settles what has ended of the lists that continuations name; how many are finished, of which nothing is open."""
    return sum(settle_batch(batch_id, now) for name in names if (batch_id := _id_of(name)))


def settle_batch(batch_id: UUID, now: datetime) -> bool:
    """Settles what has ended of one list; whether it is finished."""
    ended = Resource.objects.filter(url_digest=OuterRef("url_digest")).exclude(state=State.WANTED)
    items = open_items(batch_id).filter(Exists(ended))
    if digests := list(items.values_list("url_digest", flat=True)):
        ordering.update(items.filter(detail=JOINED), **_settled(ended, Value(Step.KNOWN.value)))
        ordering.update(items, **_settled(ended, F("step")))
        continuing.resume(digests)  # who ended them may have been killed before
    return finish(batch_id, now)


def finish(batch_id: UUID, now: datetime) -> bool:
    """Finishes a list of which nothing is open; whether it is finished, by whomever."""
    batch = Batch.objects.filter(pk=batch_id)
    is_open = Exists(BatchItem.objects.filter(batch=OuterRef("pk"), step=""))
    batch.filter(~is_open, finished_at=None).update(
        finished_at=now, call_at=Case(When(~Q(webhook=""), then=Value(now)), default=None)
    )
    return batch.exclude(finished_at=None).exists()


def heal(now: datetime, seconds: float) -> int:
    """Looks after unfinished lists for about so long at most, beginning anywhere; how many there were time for.

    What Redis lost is settled here, and what nobody has asked for is asked for.
    """
    until, done = time.monotonic() + seconds, 0
    for batch in _unfinished():
        if time.monotonic() >= until:
            break
        if not settle_batch(batch.pk, now) and batch.created_at < now - YOUNG:
            ask_again(batch, now)
        done += 1
    return done


def ask_again(batch: Batch, now: datetime) -> int:
    """Asks for open items of which nothing is known: who made the list was killed, or a row was removed."""
    lost = open_items(batch.pk).exclude(Exists(Resource.objects.filter(url_digest=OuterRef("url_digest"))))
    items = list(lost[:SLICE])
    if items:
        wanting.want(
            [Wanted(item.url_digest, item.url, targets.parse(item.url).host, batch.referer, now) for item in items]
        )
    return len(items)


def open_items(batch_id: UUID) -> QuerySet[BatchItem]:
    return BatchItem.objects.filter(batch_id=batch_id, step="")


def prune(before: datetime, seconds: float) -> int:
    """Removes lists that were finished before, for about so long at most; how many."""
    until, removed = time.monotonic() + seconds, 0
    for batch in Batch.objects.filter(finished_at__lt=before).order_by("finished_at")[:SLICE]:
        if time.monotonic() >= until:
            break
        batch.delete()
        removed += 1
    return removed


def _next_id(sent: Sent) -> UUID:
    """The same for all who send the same at once, so that only one of them makes the list."""
    before = Batch.objects.filter(key=sent.key).order_by("-created_at").values_list("id", flat=True).first()
    return UUID(bytes=hashlib.sha256(f"{sent.key} {before}".encode()).digest()[:16], version=4)


def _insert_items(batch: Batch, decisions: Sequence[Decision]) -> None:
    """Ten thousand at once, without a model for each: that took four times as long."""
    batch_id = BatchItem._meta.get_field("batch").get_db_prep_save(batch.pk, connection)
    rows = [
        (
            batch_id,
            one.position,
            storable(one.url, MOST_URL_CHARACTERS),
            one.url_digest,
            one.step,
            one.blob_digest,
            one.detail[:MOST_DETAIL],
        )
        for one in decisions
    ]
    table, places = connection.ops.quote_name(BatchItem._meta.db_table), ", ".join(["%s"] * len(_COLUMNS))
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} ({', '.join(_COLUMNS)}) VALUES ({places})", rows)  # noqa: S608


def _settled(ended: QuerySet[Resource], step_if_stored: Value | F) -> dict[str, Subquery]:
    """The fields of an item by the row of its URL."""
    step = Case(
        When(state=State.FAILED, then=Value(Step.FAILED.value)),
        When(step="", then=Value(Step.KNOWN.value)),
        default=step_if_stored,
        output_field=CharField(),
    )
    blob = Case(When(state=State.FAILED, then=Value("")), default=F("blob_digest"))
    others = [When(state=State.FAILED, failure=failure, then=Value(said)) for failure, said in telling.IN_PLACE.items()]
    detail = Case(*others, When(state=State.FAILED, then=F("detail")), default=Value(""))
    named = {"step": step, "blob_digest": blob, "detail": detail}
    return {name: Subquery(ended.annotate(found=found).values("found")[:1]) for name, found in named.items()}


def _id_of(name: str) -> UUID | None:
    try:
        return UUID(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
    except ValueError:
        return None


def _unfinished() -> Iterable[Batch]:
    """All of them, beginning anywhere: however little time there is, each gets its turn."""
    start = uuid4()
    rows = Batch.objects.filter(finished_at=None).order_by("pk")
    yield from rows.filter(pk__gte=start).iterator(SLICE)
    yield from rows.filter(pk__lt=start).iterator(SLICE)
