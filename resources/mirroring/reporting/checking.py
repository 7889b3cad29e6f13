"""What is remembered of URLs, compared with the rows of files: nobody is told of one that went, or was taken down.

A process that is killed between a row and what is remembered of it leaves that wrong, and so does a memory that was
away just then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ..knowing import seen
from ..knowing.models import Blob, State
from ..knowing.seen import Seen
from ..storing import losing, taking_down
from ..writing import telling, wanting


def checked(known: Mapping[str, Seen], now: datetime) -> dict[str, Seen]:
    """The same, by the URLs' digests, as it is now, in words for anybody. URLs whose file is nowhere are wanted.

    Raises DatabaseError.
    """
    found = _compared(known)
    wanted = [url for url, one in known.items() if one.state is State.WANTED]
    changed = (known.keys() - found.keys()) | set(wanting.ended(wanted))
    found |= _anew(sorted(changed), now) if changed else {}
    failed = {url: one for url, one in found.items() if one.failure in telling.IN_PLACE}
    return found | {url: replace(one, detail=telling.IN_PLACE[one.failure]) for url, one in failed.items()}


def _anew(urls: Sequence[str], now: datetime) -> dict[str, Seen]:
    """As their rows say. A row whose file is nowhere is put right."""
    seen.forget(urls)
    known = seen.look_up(urls)
    found = _compared(known)
    lost = sorted(known.keys() - found.keys())
    losing.want_again(lost, now)
    return found | dict.fromkeys(lost, Seen(State.WANTED))


def _compared(known: Mapping[str, Seen]) -> dict[str, Seen]:
    """Without those whose file has no row."""
    having = {url: one.blob_digest for url, one in known.items() if one.blob_digest and one.state is not State.FAILED}
    there = _files(set(having.values()))
    found = {url: one for url, one in known.items() if url not in having or having[url] in there}
    down = {url: taking_down.refused(digest) for url, digest in having.items() if there.get(digest)}
    return found | down


def _files(digests: Iterable[str]) -> dict[str, datetime | None]:
    """Those that have a row, and when they were taken down."""
    ordered = sorted(digests)
    found: dict[str, datetime | None] = {}
    for start in range(0, len(ordered), seen.AT_ONCE):
        some = Blob.objects.filter(pk__in=ordered[start : start + seen.AT_ONCE])
        found |= dict(some.values_list("pk", "taken_down_at"))
    return found
