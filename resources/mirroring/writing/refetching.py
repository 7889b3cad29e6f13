"""Has URLs fetched once more, by an admin's decision: what is stored stays until its origin has something else."""

from collections.abc import Sequence
from datetime import datetime

from ..knowing import seen
from ..knowing.models import Resource, State
from ..storing import taking_down
from . import blocking, wanting


def refetch(url_digests: Sequence[str], now: datetime) -> int:
    """Wants them from now on; how many. Blocked hosts and what was taken down are left out. Raises DatabaseError."""
    blocked = blocking.blocked_hosts()
    rows = Resource.objects.filter(url_digest__in=url_digests).exclude(failure=taking_down.FAILURE)
    chosen = [
        digest for digest, host in rows.values_list("url_digest", "host") if not blocking.is_blocked(host, blocked)
    ]
    Resource.objects.filter(url_digest__in=chosen).update(
        state=State.WANTED, due_at=now, attempts=0, failure="", detail="", status=None
    )
    seen.forget(chosen)
    wanting.feed_soon()
    return len(chosen)
