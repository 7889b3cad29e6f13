"""How often content is asked for, weighted by age, in `state`: counts go in, early refresh and pre-warming ask.

The kind of content is the word before the first colon of its key. Per kind the POPULARITY_KEYS most
popular keys are known. Does not read logs: whoever does calls `counting`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from redis.exceptions import RedisError

from . import connections, decaying, hits, periods
from .conf import conf
from .errors import StoreUnavailable
from .scripts import Call

MOST_GROUPS = 2000
"""Groups that are counted by name; the requests of further ones are counted under none."""

GENERATION = "@"
"""What stands behind it in a content key tells apart contents of one address, which are known as one."""

WINDOW = 1000

_GROUPS = "retry:requests:groups"
_DECAYS = "retry:popular:decays"


@dataclass(frozen=True, slots=True)
class Popular:
    """Content and how often it was asked for, each request at its weight of now."""

    content_key: str
    requests: float


@dataclass(frozen=True, slots=True)
class Hit:
    """Requests that were answered alike. `exists` says that the answer proves that there is such content."""

    kind: str
    group: str
    answer: str
    exists: bool
    period: int
    number: int


def counting(source: str, before: bytes, after: bytes, found: Sequence[Hit], wishes: Mapping[str, float]) -> Call:
    """Counts requests and moves the source's position from `before` to `after`, in one step.

    `wishes` are weights as of now by content key. The reply is 0, and nothing is counted, when the
    position is not `before`: somebody else has counted these requests.
    """
    by_kind: dict[str, list[tuple[str, float]]] = {}
    for content_key, weight in wishes.items():
        by_kind.setdefault(kind_of(content_key), []).append((content_key, weight))
    rows = [[hit.kind, hit.group, hit.answer, hit.exists, hit.period, hit.number] for hit in found]
    half_life, most_keys = conf().POPULARITY_HALF_LIFE_SECONDS, conf().POPULARITY_KEYS
    bounds = (periods.KEPT_SECONDS, half_life, most_keys, MOST_GROUPS)
    keys = [_position(source), hits.HITS, _GROUPS, _DECAYS]
    return Call("state", "count", keys, [before, after, *bounds, json.dumps(rows), json.dumps(by_kind)])


def position(source: str) -> bytes:
    """The position up to which the source has been counted, empty at first. Raises StoreUnavailable."""
    try:
        return cast(bytes | None, connections.patient_client("state").get(_position(source))) or b""
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error


def is_popular(content_key: str) -> bool:
    """Whether it was asked for POPULAR_REQUESTS times or more, by weight. False when `state` does not say."""
    if not conf().OBSERVE:  # nobody counts
        return False
    try:
        return requests(content_key.partition(GENERATION)[0]) >= conf().POPULAR_REQUESTS
    except StoreUnavailable:
        return False


def requests(content_key: str) -> float:
    """How often it was asked for, by weight; 0 when it is not among the known. Raises StoreUnavailable."""
    kind = kind_of(content_key)
    reply = connections.execute(Call("state", "popular", [_popular(kind), _DECAYS], [kind, content_key]))
    assert isinstance(reply, bytes)
    return float(reply)


def most_popular(
    kind: str, most: int, beginning: str = "", is_meant: Callable[[str], bool] | None = None, least: float = 0.0
) -> list[Popular]:
    """The content keys of a kind that are asked for most, the most popular first. Raises StoreUnavailable.

    Of those that begin so, are meant, and have `least` requests or more, if that is said. Asks in many short calls,
    so that none holds `state` up, and in no more than it takes.
    """
    found: dict[str, float] = {}
    try:
        for start in range(0, conf().POPULARITY_KEYS, WINDOW):
            window = _window(kind, start)
            enough = [(key, requests) for key, requests in window if requests >= least]
            new = ((key, requests) for key, requests in enough if key.startswith(beginning) and key not in found)
            found |= {key: requests for key, requests in new if is_meant is None or is_meant(key)}
            if len(enough) < WINDOW or len(found) >= most:
                break
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    return [Popular(key, requests) for key, requests in list(found.items())[:most]]


def kind_of(content_key: str) -> str:
    return content_key.partition(":")[0]


def _position(source: str) -> str:
    return f"retry:counted:{source}"


def _window(kind: str, start: int) -> list[tuple[str, float]]:
    """The keys of WINDOW places from that one, each with what its score is worth now."""
    with connections.client("state").pipeline() as pipeline:
        pipeline.time()
        pipeline.hget(_DECAYS, kind)
        pipeline.zrevrange(_popular(kind), start, start + WINDOW - 1, withscores=True)
        time, decay, scores = pipeline.execute()
    if decay is None:
        return []
    landmark, half_life = (float(part) for part in decay.split())
    now = time[0] + time[1] / 1_000_000
    ranked = cast("list[tuple[bytes, float]]", scores)
    return [(key.decode(), decaying.value(score, landmark, half_life, now)) for key, score in ranked]


def _popular(kind: str) -> str:
    return f"retry:popular:{kind}"
