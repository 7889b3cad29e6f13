"""Content that pre-warming has prepared, noted in `state`, so that requests which find it can be counted.

It is told from content that was prepared again since by the moment of its storing. Prepares nothing.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from retry import contents, popularity, stores
from retry.conf import StateShare
from retry.contents import Content

NOTED_CONTENTS = StateShare(1 / 200, record_bytes=250)
"""The contents that are noted; those stored longest ago give way."""

_NOTES_KEY, _ORDER_KEY = "prewarm:prepared", "prewarm:prepared-at"

_FOUND_SUFFIX = "/prepared"


@dataclass(frozen=True, slots=True)
class PreparedNote:
    """A content key, and the Unix seconds of its storing by pre-warming."""

    content_key: str
    stored_at: float


def note_prepared(notes: Collection[PreparedNote]) -> None:
    """Notes contents. Forgets those stored longest ago, if there are too many. Raises StoreUnavailable."""
    if not notes:
        return
    values: dict[Any, Any] = {_counted_key(each): json.dumps([each.content_key, each.stored_at]) for each in notes}
    with stores.translate_errors("state"):
        client = stores.patient_client("state")
        with client.pipeline() as pipeline:  # one transaction, but for a Cluster: the order finds every note
            pipeline.zadd(_ORDER_KEY, {_counted_key(each): each.stored_at for each in notes})
            pipeline.hset(_NOTES_KEY, mapping=values)
            pipeline.execute()
        if (excess := client.zcard(_ORDER_KEY) - NOTED_CONTENTS.most_records) > 0:
            _forget([key.decode() for key in cast("list[bytes]", client.zrange(_ORDER_KEY, 0, excess - 1))])


def find_prepared(counted_keys: Collection[str]) -> set[str]:
    """Returns the keys, as popularity counts them, whose content in the cache is fresh and from pre-warming.

    Forgets the notes of content that is not so any more. Raises StoreUnavailable.
    """
    notes = _load_notes(list(counted_keys))
    if not notes:
        return set()
    steps = [contents.read_content(note.content_key, with_body=False) for note in notes.values()]
    pairs = zip(notes.items(), stores.run_together(steps, "cache"), strict=True)
    found = {key for (key, note), content in pairs if _is_as_noted(content, note)}
    with stores.translate_errors("state"):
        _forget([key for key in notes if key not in found])
    return found


def found_kind(kind: str) -> str:
    """Returns the kind under which popularity counts requests that found prepared content of a kind."""
    return f"{kind}{_FOUND_SUFFIX}"


def load_found(kinds: Sequence[str], now: float, seconds: float) -> dict[str, tuple[float, float]]:
    """Loads by kind the requests that found prepared content: those of the last `seconds`, and all since ever.

    Raises StoreUnavailable.
    """
    found = {kind: popularity.load_group_hits(found_kind(kind), "", now, (seconds,)) for kind in kinds}
    return {kind: (sum(recent.values()), sum(ever.values())) for kind, (ever, recent) in found.items()}


def _load_notes(counted_keys: list[str]) -> Mapping[str, PreparedNote]:
    if not counted_keys:
        return {}
    with stores.translate_errors("state"):
        held = cast("list[bytes | None]", stores.patient_client("state").hmget(_NOTES_KEY, counted_keys))
    return {key: PreparedNote(*json.loads(text)) for key, text in zip(counted_keys, held, strict=True) if text}


def _is_as_noted(content: Content | None, note: PreparedNote) -> bool:
    return content is not None and content.fresh_seconds > 0 and content.stored_at.timestamp() == note.stored_at


def _forget(counted_keys: Sequence[str]) -> None:
    if counted_keys:
        with stores.patient_client("state").pipeline() as pipeline:
            pipeline.hdel(_NOTES_KEY, *counted_keys)
            pipeline.zrem(_ORDER_KEY, *counted_keys)
            pipeline.execute()


def _counted_key(note: PreparedNote) -> str:
    return note.content_key.partition(popularity.GENERATION_MARK)[0]
