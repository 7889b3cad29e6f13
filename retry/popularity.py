"""Popularity: decayed counts of requests by content key, and totals by kind, group and answer, in `state`.

Early refresh and pre-warming read them. Reads no logs: the reader of a log passes its counts to `count_call`.
nginx answers most requests by itself, so main cannot count them. The kind of content is the word before the
first colon of its key; the POPULARITY_KEYS most popular keys of each kind are kept.

Forward decay: Cormode, Shkapenyuk, Srivastava, Xu, Forward Decay: A Practical Time Decay Model for Streaming
Systems, ICDE 2009. Weights grow from a landmark instead of shrinking: earlier counts need no update as time
passes, lines may come in any order, and ranks never change. Recent hits are summed over whole periods and a
share of the oldest one. Times are Unix seconds.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from . import stores
from .conf import StateShare, conf, partition_of, partition_root
from .errors import StoreUnavailable
from .scripts import ScriptCall

PERIOD_SECONDS = 600
DAY_SECONDS = 86_400
PERIOD_KEPT_SECONDS = DAY_SECONDS + 2 * PERIOD_SECONDS
"""The counts of a period are kept for this long after their last change: a day, and the partly counted periods."""

PARTS_SUFFIX = "/parts"
"""The suffix of a kind under which the parts of its groups are counted, as `layer/zoom`."""

ANSWER_WORDS = ("hot", "passed", "waiting", "missing", "busy", "failed", "other")

NAMED_GROUPS = StateShare(1 / 6, record_bytes=85 * 7 * (PERIOD_KEPT_SECONDS // PERIOD_SECONDS))
"""The groups that are counted by name: by each kind of answer, in each period. Requests of further groups are counted
under no name.
"""

GENERATION_MARK = "@"
"""The text behind this mark in a content key tells contents of one address apart; popularity counts them as one."""

WINDOW_KEYS = 1000


@dataclass(frozen=True, slots=True)
class PeriodHits:
    """Requests of one period with one kind of answer. `exists`: the answer proves that there is such content."""

    kind: str
    group: str
    answer: str
    exists: bool
    period: int
    number: int


@dataclass(frozen=True, slots=True)
class PopularContent:
    content_key: str
    requests: float


@dataclass(frozen=True, slots=True)
class TotalHits:
    kind: str
    group: str
    answer: str
    number: float


def count_call(
    source: str, before: bytes, after: bytes, found: Sequence[PeriodHits], weights: Mapping[str, float]
) -> ScriptCall:
    """The call that counts requests and moves the source's position from `before` to `after`, in one step.

    `weights` are those of now by content key. The reply is 0, and nothing is counted, if the
    position is not `before`: another process has counted these requests.
    """
    by_kind: dict[str, list[tuple[str, float]]] = {}
    for content_key, weight in weights.items():
        by_kind.setdefault(content_kind(content_key), []).append((content_key, weight))
    rows = [[hit.kind, hit.group, hit.answer, hit.exists, hit.period, hit.number] for hit in found]
    half_life, most_keys = conf().POPULARITY_HALF_LIFE_SECONDS, conf().POPULARITY_KEYS
    bounds = (PERIOD_KEPT_SECONDS, half_life, most_keys, NAMED_GROUPS.most_records)
    keys = [_root(), _position_key(source), hits_key(), f"{hits_key()}:groups", _decays_key()]
    return ScriptCall("state", "count", keys, [before, after, *bounds, json.dumps(rows), json.dumps(by_kind)])


def load_position(source: str) -> bytes:
    """Loads the position up to which the source has been counted, empty at first. Raises StoreUnavailable."""
    with stores.translate_errors("state"):
        return cast(bytes | None, stores.patient_client("state").get(_position_key(source))) or b""


def is_popular(content_key: str) -> bool:
    """Tells whether the content has POPULAR_REQUESTS or more, by weight. False if `state` does not answer."""
    if not conf().OBSERVE:  # nothing is counted
        return False
    try:
        return weighted_requests(content_key.partition(GENERATION_MARK)[0]) >= conf().POPULAR_REQUESTS
    except StoreUnavailable:
        return False


POPULAR = "1"
"""The description of content that is known to be popular."""


def describe_content(content_key: str) -> str:
    """Describes the popularity of content for a look: as it is, or, in JSON, for the script to find it out.

    Only without partitions the counts of requests are where the claims are. Empty for content that is not popular.
    """
    if not conf().OBSERVE or conf().STATE_PARTITIONS > 1:
        return POPULAR if is_popular(content_key) else ""
    counted = content_key.partition(GENERATION_MARK)[0]
    return json.dumps([content_kind(counted), counted, conf().POPULAR_REQUESTS])


def weighted_requests(content_key: str) -> float:
    """Loads the weighted number of the content's requests; 0 for an unknown key. Raises StoreUnavailable."""
    kind = content_kind(content_key)
    reply = stores.execute_call(
        ScriptCall("state", "popular", [_popular_key(kind), _decays_key()], [kind, content_key])
    )
    assert isinstance(reply, bytes)
    return float(reply)


def most_popular_contents(
    kind: str, most: int, beginning: str = "", is_meant: Callable[[str], bool] | None = None, least: float = 0.0
) -> list[PopularContent]:
    """Loads the most popular content keys of a kind, the first being the most popular. Raises StoreUnavailable.

    Only keys with that beginning, for which `is_meant` is true, and with `least` requests or more. Makes many short
    calls, so that none blocks `state`, and no more than it needs.
    """
    found: dict[str, float] = {}
    with stores.translate_errors("state"):
        for start in range(0, conf().POPULARITY_KEYS, WINDOW_KEYS):
            window = _load_window(kind, start)
            enough = [(key, requests) for key, requests in window if requests >= least]
            new = ((key, requests) for key, requests in enough if key.startswith(beginning) and key not in found)
            found |= {key: requests for key, requests in new if is_meant is None or is_meant(key)}
            if len(enough) < WINDOW_KEYS or len(found) >= most:
                break
    return [PopularContent(key, requests) for key, requests in list(found.items())[:most]]


def _load_window(kind: str, start: int) -> list[tuple[str, float]]:
    """Loads the keys of one window of ranks from `start`, each with its score's value now."""
    with stores.fast_client("state").pipeline() as pipeline:
        pipeline.hget(_decays_key(), kind)
        pipeline.zrevrange(_popular_key(kind), start, start + WINDOW_KEYS - 1, withscores=True)
        decay, scores = pipeline.execute()
    if decay is None:
        return []
    landmark, half_life = (float(part) for part in decay.split())
    now = time.time()  # that of `state` may differ by seconds, and half-lives are hours
    ranked = cast("list[tuple[bytes, float]]", scores)
    return [(key.decode(), decayed_value(score, landmark, half_life, now)) for key, score in ranked]


def content_kind(content_key: str) -> str:
    return content_key.partition(":")[0]


def hits_key() -> str:
    """The key of the counts since ever. All counts are in one partition: one script counts a slice of a log."""
    return f"{_root()}:requests"


def _root() -> str:
    return partition_root("retry", partition_of("requests"))


def _position_key(source: str) -> str:
    return f"{_root()}:counted:{source}"


def _popular_key(kind: str) -> str:
    return f"{_root()}:popular:{kind}"


def _decays_key() -> str:
    return f"{_root()}:popular:decays"


def load_totals() -> list[TotalHits]:
    """Loads all counts since ever by group, without those that count a part of the same requests again.

    The kinds of such counts have a suffix that begins with a slash. Raises StoreUnavailable.
    """
    with stores.translate_errors("state"):
        held = stores.fast_client("state").hgetall(hits_key())
    found = []
    for field, number in cast("dict[bytes, bytes]", held).items():
        kind, group, answer = field.decode().split(" ")
        found += [TotalHits(kind, group, answer, float(number))] if "/" not in kind else []
    return found


def load_group_hits(kind: str, group: str, now: float, seconds: tuple[float, ...]) -> list[dict[str, float]]:
    """Loads the group's counts by answer: since ever, and for each of these last seconds. Raises StoreUnavailable."""
    spans = [period_shares(now, span) for span in seconds]
    numbers = sorted(set().union(*spans)) if spans else []
    fields = [f"{kind} {group} {answer}" for answer in ANSWER_WORDS]
    with stores.translate_errors("state"), stores.fast_client("state").pipeline(transaction=False) as pipeline:
        for name in (hits_key(), *(f"{hits_key()}:{number}" for number in numbers)):
            pipeline.hmget(name, fields)
        ever, *recent = [_answer_counts(reply) for reply in pipeline.execute()]
    held = dict(zip(numbers, recent, strict=True))
    return [ever, *(_sum_span(held, span) for span in spans)]


def load_hits_ever(kind: str, groups: Sequence[str]) -> list[dict[str, float]]:
    """Loads the counts by answer since ever, for each of the groups. Raises StoreUnavailable."""
    fields = [f"{kind} {group} {answer}" for group in groups for answer in ANSWER_WORDS]
    with stores.translate_errors("state"):
        reply = cast("list[bytes | None]", stores.fast_client("state").hmget(hits_key(), fields) if fields else [])
    step = len(ANSWER_WORDS)
    return [_answer_counts(reply[start : start + step]) for start in range(0, len(fields), step)]


def _answer_counts(reply: list[bytes | None]) -> dict[str, float]:
    return {answer: float(number or 0) for answer, number in zip(ANSWER_WORDS, reply, strict=True)}


def _sum_span(held: dict[int, dict[str, float]], span: dict[int, float]) -> dict[str, float]:
    return {answer: sum(held[number][answer] * share for number, share in span.items()) for answer in ANSWER_WORDS}


def period_number(moment: float, now: float) -> int:
    """The number of the period that counts a request of that moment; -1 if that was more than a day ago."""
    return -1 if now - moment > DAY_SECONDS else int(min(moment, now) // PERIOD_SECONDS)


def period_shares(now: float, seconds: float) -> dict[int, float]:
    """The share of each period that lies in the last `seconds`: 1 for all but the oldest."""
    last, began = int(now // PERIOD_SECONDS), (now - seconds) / PERIOD_SECONDS
    first = int(began // 1)
    return {number: min(1.0, number + 1 - began) for number in range(first, last + 1)}


def decay_weight(age_seconds: float, half_life_seconds: float) -> float:
    """The weight now of a request of that age. A request from the future weighs as one made now."""
    return float(2 ** -min(1000.0, max(0.0, age_seconds) / half_life_seconds))


def decayed_value(score: float, landmark: float, half_life_seconds: float, now: float) -> float:
    """The value now of a score that is kept as of the landmark. Times are Unix seconds."""
    return score * decay_weight(now - landmark, half_life_seconds)
