"""The records of runs, for the admin: what each prepared, and the time that it took. Begins nothing.

A run of the command waits for its pieces, and is recorded when it ends. An automatic run does not: its record is
stored before it begins any, with the pieces in hand, which are settled as they end.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from retry import claim_state, claims, popularity, stores
from retry.claim_state import ClaimTaken
from retry.contents import Content

from .. import locks
from ..traffic import prepared
from ..traffic.prepared import PreparedNote
from . import plan
from .models import PrewarmRecord
from .progress import RunTally

GIVE_UP_AFTER = timedelta(hours=1)
"""The time after which the pieces that a run still has in hand count as not prepared."""

ORPHANED_AFTER = timedelta(minutes=5)
"""The time after which a run that has not told the pieces it began counts as killed: beginning them takes seconds."""

RECORDS_KEPT_DAYS = 30
MAX_SETTLED_AT_ONCE = 20
SETTLE_LOCK, SETTLE_LOCK_SECONDS = "prewarm:settling", 60

KnownContents = Mapping[str, Content | None]


@dataclass(frozen=True, slots=True)
class PieceInHand:
    """A piece that was handed over: its contents, the first being one that it lacked, and that one's moment of
    storing until then, in Unix seconds; 0 for none.
    """

    work_key: str
    content_keys: list[str]
    stored_before: float

    def was_stored(self, known: KnownContents) -> bool:
        content = known[self.content_keys[0]]
        return content is not None and content.stored_at.timestamp() != self.stored_before


@dataclass(frozen=True, slots=True)
class PreparedWork:
    """The seconds of some work, and the numbers of contents by kind that it prepared."""

    seconds: float
    kinds: Counter[str]


def note_prepared(pieces: Sequence[Sequence[str]]) -> PreparedWork:
    """Notes the contents of prepared pieces, so that requests which find them are counted. Raises StoreUnavailable.

    A piece is a list of content keys, the first being one that it lacked.
    """
    return _note_known(pieces, _look_up_known(pieces))


def _look_up_known(pieces: Sequence[Sequence[str]]) -> KnownContents:
    keys = [key for piece in pieces for key in piece]
    return dict(zip(keys, plan.look_up_contents(keys), strict=True))


def _note_known(pieces: Sequence[Sequence[str]], known: KnownContents) -> PreparedWork:
    notes = [note for piece in pieces for note in _make_notes(piece, known)]
    prepared.note_prepared(notes)
    seconds = sum(content.cost_seconds for piece in pieces if (content := known[piece[0]]))
    return PreparedWork(seconds, Counter(popularity.content_kind(note.content_key) for note in notes))


def _make_notes(content_keys: Sequence[str], known: KnownContents) -> Iterator[PreparedNote]:
    """Yields notes of the contents that were stored with the first one."""
    first = known[content_keys[0]]
    for key in content_keys:
        content = known[key]
        if content and first and content.stored_at == first.stored_at:
            yield PreparedNote(key, content.stored_at.timestamp())


def record_command(tally: RunTally, began_at: datetime, now: datetime) -> None:
    """Stores the record of a run of the command; none if it found nothing to do. Raises DatabaseError."""
    pieces = tally.pieces
    if not pieces.total():
        return
    PrewarmRecord.objects.create(
        began_at=began_at,
        settled_at=now,
        started_by=PrewarmRecord.Starter.COMMAND,
        considered=pieces.total(),
        fresh=pieces["fresh"],
        handed=pieces["prepared"] + pieces["failed"],
        prepared=pieces["prepared"],
        failed=pieces["failed"],
        left=pieces["elsewhere"] + pieces["gone"],
        seconds=tally.work_seconds,
        prepared_kinds=dict(tally.kinds),
    )


def write_start(record: PrewarmRecord) -> None:
    """Writes an automatic run that begins its pieces, unless it has been settled as killed. Raises DatabaseError."""
    if not record.pk:
        record.save(force_insert=True)
        return
    names = ("considered", "fresh", "rare", "handed", "left", "settled_at", "in_hand")
    values = {name: getattr(record, name) for name in names}
    PrewarmRecord.objects.filter(pk=record.pk, handed=0, settled_at=None).update(**values)


def settle_runs(now: datetime) -> int:
    """Settles the pieces of runs that have ended since the last look. Returns their number; 0 if another process does.

    Raises StoreUnavailable and DatabaseError.
    """
    if not PrewarmRecord.objects.filter(settled_at=None).exists():
        return 0
    return locks.run_alone(SETTLE_LOCK, SETTLE_LOCK_SECONDS, lambda: _settle_open_runs(now))


def _settle_open_runs(now: datetime) -> int:
    begun = Q(handed__gt=0) | Q(began_at__lte=now - ORPHANED_AFTER)
    records = PrewarmRecord.objects.filter(begun, settled_at=None)
    return sum(_settle_run(each, now) for each in records[:MAX_SETTLED_AT_ONCE])


def _settle_run(record: PrewarmRecord, now: datetime) -> int:
    """Counts the run's pieces that have ended, and notes prepared contents. Returns their number."""
    pieces = [PieceInHand(*values) for values in record.in_hand]
    still = [] if now - record.began_at > GIVE_UP_AFTER else _filter_claimed(pieces)
    ended = [piece for piece in pieces if piece not in still]
    if not ended and record.handed:
        return 0
    known = _look_up_known([piece.content_keys for piece in ended])  # after the claims: content is stored before
    stored = [piece for piece in ended if piece.was_stored(known)]
    if not record.handed:
        ended = _count_orphaned(record, stored, still)
    work = _note_known([piece.content_keys for piece in stored], known)
    record.prepared += len(stored)
    record.failed += len(ended) - len(stored)
    record.seconds += work.seconds
    record.prepared_kinds = dict(Counter(record.prepared_kinds) + work.kinds)
    record.in_hand = [astuple(piece) for piece in still]
    record.settled_at = None if still else now
    record.save()
    return len(ended)


def _count_orphaned(
    record: PrewarmRecord, stored: list[PieceInHand], still: Sequence[PieceInHand]
) -> list[PieceInHand]:
    """Counts the pieces that a killed run began: those stored since, or claimed still. Returns those that have ended.

    The others count as left for later: it may not have begun them.
    """
    record.handed = len(stored) + len(still)
    record.left = record.considered - record.fresh - record.rare - record.handed
    return stored


def _filter_claimed(pieces: Sequence[PieceInHand]) -> list[PieceInHand]:
    """Returns the pieces that are in a queue or in work. Raises StoreUnavailable."""
    replies = stores.run_together([stores.make_single_step(claims.look_call(each.work_key)) for each in pieces])
    states = map(claim_state.read_claim_state, replies)
    return [piece for piece, state in zip(pieces, states, strict=True) if isinstance(state, ClaimTaken)]


def find_old_records(at: datetime) -> QuerySet[PrewarmRecord]:
    return PrewarmRecord.objects.filter(began_at__lt=at - timedelta(days=RECORDS_KEPT_DAYS))


def sum_prepared(since: datetime) -> Counter[str]:
    """Returns the contents by kind that runs begun since a moment have prepared. Raises DatabaseError."""
    whole: Counter[str] = Counter()
    for kinds in PrewarmRecord.objects.filter(began_at__gte=since).values_list("prepared_kinds", flat=True):
        whole.update(kinds)
    return whole
