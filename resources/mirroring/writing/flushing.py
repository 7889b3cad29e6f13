"""Writes what came of some URLs: blobs, rows of URLs, validators; then what is known of them, and who waits for them.

Bytes are kept before. Each statement is a transaction of its own and has its rows in the order of their keys, so that
two who write the same at once wait for each other, and never in a circle. Written twice, it is the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.db.models import Q

from .. import conf
from ..knowing import continuing, hosts, ordering, seen, tallies
from ..knowing.found import Found, Lost, Outcome, Source, Vouched
from ..knowing.hosts import Learnt
from ..knowing.models import Blob, Resource, State, Step, Validator
from ..knowing.seen import Seen
from ..storing import taking_down
from ..storing.blobs import is_elsewhere
from . import upserting


def flush(batch: Sequence[Outcome], now: datetime) -> list[Outcome]:
    """Writes it; what was written, in the same order, each with the step that settled it.

    What nothing came of, and was stored meanwhile by a redirect of another URL, is told as that. Raises DatabaseError.
    """
    blobs = _write_blobs([one for one in batch if isinstance(one, Found)])
    with_steps = _with_steps(batch, blobs)
    found = [one for one in with_steps if isinstance(one, Found)]
    aliases = _aliases(found)
    written = [*aliases, *found]
    upserting.upsert_found(written, blobs)
    lost = [one for one in with_steps if isinstance(one, Lost)]
    overtaken = upserting.upsert_lost(lost)
    _write_validators(found, now)
    _tell([*written, *(one for one in lost if one.source.url_digest not in overtaken)], now)
    for digest in sorted(taking_down.taken_down({one.blob_digest for one in found})):
        # Taken down meanwhile, by somebody who looked for its URLs before.
        taking_down.refuse(digest, sorted({one.source.url_digest for one in written if one.blob_digest == digest}))
    return [_as_it_stands(one, overtaken) for one in with_steps]


def _as_it_stands(one: Outcome, overtaken: Mapping[str, Seen]) -> Outcome:
    stands = overtaken.get(one.source.url_digest)
    if isinstance(one, Lost) and stands and stands.state is State.STORED:
        return Found(one.source, stands.blob_digest, one.at, step=Step.REDIRECT)
    return one


def _write_blobs(found: Sequence[Found]) -> dict[str, Blob]:
    """Upserts those of which the bytes came; all that are meant, as they stand now. Whoever prunes sees by
    `accessed_at` that they are wanted, and leaves them.
    """
    rows: dict[str, Blob] = {}
    for one in found:
        if one.contents and one.blob_digest not in rows:
            rows[one.blob_digest] = _blob(one)
    Blob.objects.bulk_create(
        [rows[digest] for digest in sorted(rows)],
        update_conflicts=True,
        unique_fields=["digest"],
        update_fields=["accessed_at"],
    )
    if is_elsewhere():  # whoever had them before may be gone for good, with all that it had not uploaded
        held = Blob.objects.filter(digest__in=rows, uploaded_at=None, taken_down_at=None).exclude(holder=conf.machine())
        ordering.update(held, holder=conf.machine())
    spared = sorted({one.blob_digest for one in found if not one.contents} - rows.keys())
    if spared:
        ordering.update(Blob.objects.filter(digest__in=spared), accessed_at=max(one.at for one in found))
    fields = ("digest", "holder", "stored_at", "taken_down_at", "media_type", "size")
    return Blob.objects.only(*fields).in_bulk({one.blob_digest for one in found})


def _blob(found: Found) -> Blob:
    contents = found.contents
    assert contents is not None
    return Blob(
        digest=contents.digest,
        size=contents.size,
        media_type=contents.media_type,
        width=contents.width,
        height=contents.height,
        name=contents.name,
        holder=conf.machine(),
        stored_at=found.at,
        uploaded_at=None if is_elsewhere() else found.at,
        accessed_at=found.at,
    )


def _with_steps(batch: Sequence[Outcome], blobs: Mapping[str, Blob]) -> list[Outcome]:
    """A body is new if the row of its blob is the one that was just written, by its microsecond and its machine."""
    stayed = {one.blob_digest for one in batch if isinstance(one, Lost) and one.blob_digest}
    there = set(Blob.objects.filter(pk__in=stayed).values_list("pk", flat=True)) if stayed else stayed
    told: list[Outcome] = []
    new = set[str]()
    for one in batch:
        blob = blobs.get(one.blob_digest) if isinstance(one, Found) else None
        if isinstance(one, Lost):
            told.append(one if one.state is State.FAILED or one.blob_digest in there else _without_content(one))
        elif blob is None:  # removed meanwhile: it is fetched again
            told.append(Lost(one.source, State.WANTED, one.at, "gone", "its content was removed", due_at=one.at))
        elif blob.taken_down_at is not None:
            told.append(_taken_down(one))
        elif one.contents is None:
            told.append(one)
        else:
            is_new = (blob.stored_at, blob.holder) == (one.at, conf.machine()) and one.blob_digest not in new
            if is_new:
                new.add(one.blob_digest)
            told.append(replace(one, step=Step.NEW if is_new else Step.CONTENT))
    return told


def _without_content(lost: Lost) -> Lost:
    """What it had before, if anything, is gone: nothing stays."""
    if lost.state is State.STORED:
        return replace(lost, state=State.FAILED, step=Step.FAILED, blob_digest="")
    return replace(lost, blob_digest="")


def _taken_down(found: Found) -> Lost:
    said = "its content was taken down"
    return Lost(
        found.source,
        State.FAILED,
        found.at,
        taking_down.FAILURE,
        said,
        found.status,
        blob_digest=found.blob_digest,
        step=Step.FAILED,
    )


def _aliases(found: Iterable[Found]) -> list[Found]:
    """The URLs that were met on the way, as found; not those with a content of their own, be it taken down."""
    sources = {source.url_digest: (source, one) for one in found for source in one.aliases}
    own = {one.source.url_digest for one in found}
    asked = sorted(sources.keys() - own)
    if not asked:
        return []
    own_rows = Q(state=State.STORED) | Q(failure=taking_down.FAILURE)
    settled = set(Resource.objects.filter(own_rows, pk__in=asked).values_list("pk", flat=True))
    return [_alias(*sources[digest]) for digest in asked if digest not in settled]


def _alias(source: Source, one: Found) -> Found:
    moved_to = one.moved_to if one.moved_to != source.url else ""
    etag, last_modified = ("", "") if moved_to else (one.etag, one.last_modified)
    return replace(
        one, source=source, contents=None, step=Step.REDIRECT, moved_to=moved_to, etag=etag, last_modified=last_modified
    )


def _write_validators(found: Sequence[Found], now: datetime) -> None:
    """What origins vouch for, and whether it was right where a body was downloaded all the same."""
    vouching = [(one, one.vouched) for one in found if one.vouched and one.vouched.keys]
    if not vouching:
        return
    liars = hosts.liars(vouched.host for _, vouched in vouching)
    for host in sorted({vouched.host for one, vouched in vouching if vouched.host in liars and not one.contents}):
        hosts.distrust(host, now, hosts.AT_ONCE_SECONDS)  # it was believed until just now
    vouching = [(one, vouched) for one, vouched in vouching if vouched.host not in liars]
    keys = {key for _, vouched in vouching for key in vouched.keys}
    known = dict(Validator.objects.filter(pk__in=keys).values_list("pk", "blob_digest"))
    new: dict[str, Validator] = {}
    learnt: dict[str, Learnt] = {}
    for one, vouched in vouching:
        learnt[vouched.host] = _learnt(learnt.get(vouched.host, Learnt()), one, vouched, known)
        for key in vouched.keys if one.contents else ():
            if key not in known:
                known[key] = one.blob_digest
                new[key] = Validator(key=key, host=vouched.host, blob_digest=one.blob_digest, seen_at=now)
    Validator.objects.bulk_create([new[key] for key in sorted(new)], ignore_conflicts=True)
    hosts.learn(learnt, now)


def _learnt(so_far: Learnt, one: Found, vouched: Vouched, known: Mapping[str, str]) -> Learnt:
    """Only what was downloaded shows whether the origin was right; what it gave before shows nothing of others."""
    said = {known[key] for key in vouched.keys if key in known}
    lied = one.contents is not None and bool(said - {one.blob_digest})
    right = one.contents is not None and not lied and not vouched.again
    return Learnt(
        asked=so_far.asked + 1,
        spared=so_far.spared + bool(said and not lied),
        confirmed=so_far.confirmed + (right and any(key in known for key in vouched.digests)),
        confirmed_opaque=so_far.confirmed_opaque + (right and any(key in known for key in vouched.opaque)),
        lies=so_far.lies + lied,
    )


def _tell(outcomes: Sequence[Outcome], now: datetime) -> None:
    seen.note({one.source.url_digest: _seen(one) for one in outcomes})
    steps = Counter(str(one.step) for one in outcomes if one.step)
    steps["body"] = sum(isinstance(one, Found) and one.contents is not None for one in outcomes)
    for step, number in sorted(steps.items()):
        tallies.count(step, number, now)
    continuing.resume([one.source.url_digest for one in outcomes if not _goes_on(one)])


def _goes_on(one: Outcome) -> bool:
    return isinstance(one, Lost) and one.state is State.WANTED


def _seen(one: Outcome) -> Seen:
    if isinstance(one, Found):
        return Seen(State.STORED, one.blob_digest)
    return Seen(one.state, one.blob_digest, one.failure, one.detail[: seen.MOST_DETAIL], one.status)
