"""Has URLs fetched once more, by an admin's decision: what is stored stays until its origin has something else."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from ..knowing import ordering, seen
from ..knowing.models import Blob, Resource, State
from ..storing import losing, taking_down
from . import blocking, wanting

AT_ONCE = 500


def refetch(url_digests: Sequence[str], now: datetime) -> int:
    """Wants them from now on; how many. Blocked hosts and what was taken down are left out. Raises DatabaseError."""
    blocked = blocking.blocked_hosts()
    rows = Resource.objects.filter(url_digest__in=url_digests).exclude(failure=taking_down.FAILURE)
    chosen = [
        digest for digest, host in rows.values_list("url_digest", "host") if not blocking.is_blocked(host, blocked)
    ]
    # What was taken down since it was looked at stays so.
    left = Resource.objects.filter(url_digest__in=chosen).exclude(failure=taking_down.FAILURE)
    ordering.update(left, state=State.WANTED, due_at=now, attempts=0, failure="", detail="", status=None)
    seen.forget(chosen)
    wanting.feed_soon()
    return len(chosen)


def refetch_held_by(machine: str, now: datetime) -> tuple[int, int]:
    """Wants all that only this machine has, which is gone for good; how many files, and URLs that gave them.

    Once more does it again for what is still only there. Raises DatabaseError.
    """
    held = Blob.objects.filter(holder=machine, uploaded_at=None, taken_down_at=None).order_by("stored_at")
    digests = list(held.values_list("digest", flat=True))
    urls = (url for some in _portions(digests) for url in losing.url_digests(some))
    return len(digests), sum(refetch(some, now) for some in _portions(urls))


def _portions(digests: Iterable[str]) -> Iterator[list[str]]:
    left = iter(digests)
    while some := list(islice(left, AT_ONCE)):
        yield some
