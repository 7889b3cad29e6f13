"""The newest of many entries, in bounded memory. PURE."""

import heapq
from collections.abc import Iterable
from datetime import UTC, datetime

from .drafts import EntryDraft

_NEVER = datetime(1, 1, 1, tzinfo=UTC)


def newest(drafts: Iterable[EntryDraft], number: int) -> tuple[list[EntryDraft], int]:
    """As many entries as that, those with the latest dates, in the order they came in; and how many came.

    Entries without a date are the first to go, and of equals those that came later: feeds begin with what is new.
    """
    kept: list[tuple[datetime, int, EntryDraft]] = []
    found = 0
    for found, draft in enumerate(drafts, start=1):
        item = (draft.moment or _NEVER, -found, draft)
        if len(kept) < number:
            heapq.heappush(kept, item)
        else:
            heapq.heappushpop(kept, item)
    return [draft for _, _, draft in sorted(kept, key=lambda item: -item[1])], found
