"""The settings that the protocol reads, with defaults for projects that set none of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import _lru_cache_wrapper, cache
from typing import NotRequired, TypedDict, TypeVar, cast
from zlib import crc32

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string


class LaneBounds(TypedDict):
    """The bounds of a lane: the most work that may wait in it, and the number of its workers.

    `interactive` lanes have work with waiting clients. With `skips`, work without recent requests is skipped while the
    lane is long. `up` names the faster lane to which work moves when none has started for long. `publisher` is the
    dotted path of a lanes.Publisher for work that does not go to Celery, and `line` that of the lanes.Line that counts
    the work before it. The claims of a lane with `first_partition` are all in the first partition of `state`: scripts
    of its publisher start and end its works.
    """

    limit: int
    workers: int
    interactive: NotRequired[bool]
    skips: NotRequired[bool]
    up: NotRequired[str]
    publisher: NotRequired[str]
    line: NotRequired[str]
    first_partition: NotRequired[bool]


def _default_lanes() -> dict[str, LaneBounds]:
    return {
        "paint.now": {"limit": 500, "workers": 2, "interactive": True, "skips": True},
        "paint.pages": {"limit": 500, "workers": 2, "interactive": True, "skips": True, "up": "paint.now"},
        "paint.refresh": {"limit": 2000, "workers": 1, "skips": True, "up": "paint.now"},
        "paint.warm": {"limit": 75_000, "workers": 1, "up": "paint.refresh"},
    }


@dataclass(frozen=True, slots=True)
class Conf:
    """One reading of the settings. Names and units are those of docs/settings.md."""

    REDIS_URL: str = "redis://127.0.0.1:6379/0"
    CACHE_URL: str = "redis://127.0.0.1:6379/1"
    QUEUES_URL: str = ""
    PUBLIC_URL: str = ""
    RETRY_AFTER_SERVER: str = "/retry_after"
    DEFAULT_RETRY_TIMEOUT: float = 25
    RETRY_MAX_WAITS: int = 2
    PAGE_PATIENCE_SECONDS: float = 2
    RETRY_DELIVERY: str = "redirect"
    RETRY_MAX_CLIENTS: int = 20_000
    RETRY_CLIENTS_PER_ADDRESS: int = 0
    RETRY_MAX_STREAMS: int = 1_000
    RETRY_STREAMS: Mapping[str, str] = field(default_factory=dict)
    STATE_MAX_BYTES: int = 1024**3
    STATE_PARTITIONS: int = 1
    RETRY_FRONT: str = ""
    RETRY_INSTANCE: str = ""
    HOT_SECONDS: float = 5
    PROXY_TIMEOUT: float = 40
    OBSERVE: bool = True
    POPULAR_REQUESTS: float = 10
    POPULARITY_HALF_LIFE_SECONDS: float = 21_600
    POPULARITY_KEYS: int = 100_000
    TRUSTED_PROXIES: tuple[str, ...] = ()
    FRONTS: tuple[str, ...] = ()
    MACHINE: str = "this machine"
    RETRY_WORKER_NEEDS: tuple[str, ...] = ()
    RETRY_LANES: Mapping[str, LaneBounds] = field(default_factory=_default_lanes)
    RETRY_LANE_WORKERS: str = ""
    RETRY_TICKET_SECONDS: float = 600
    RETRY_LEASE_SECONDS: float = 15
    RETRY_MAX_PREPARE_SECONDS: float = 120
    RETRY_DONE_SECONDS: float = 10
    RETRY_REDIS_TIMEOUT: float = 0.3
    RETRY_BACKOFF_BASE_SECONDS: float = 2
    RETRY_BACKOFF_MAX_SECONDS: float = 600
    RETRY_SKIP_SECONDS: float = 30
    RETRY_SKIP_BACKLOG_SECONDS: float = 10
    RETRY_AGE_SECONDS: float = 30

    def lane_share(self, lane: str) -> tuple[int, float]:
        """The most works that wait in the lane in one partition, and the workers that these have."""
        bounds = self.RETRY_LANES[lane]
        parts = 1 if bounds.get("first_partition") else self.STATE_PARTITIONS
        return -(-bounds["limit"] // parts), self.lane_workers(lane) / parts

    def lane_workers(self, lane: str) -> int:
        """The number of the lane's workers: by the function that RETRY_LANE_WORKERS names, where it knows."""
        known = _load_function(self.RETRY_LANE_WORKERS)(lane) if self.RETRY_LANE_WORKERS else 0
        return known or self.RETRY_LANES[lane]["workers"]

    def again_seconds(self, expected_seconds: float) -> float:
        """Seconds until a client should come again: at most DEFAULT_RETRY_TIMEOUT, so that its work is not skipped."""
        return max(1.0, min(expected_seconds, self.DEFAULT_RETRY_TIMEOUT))


@cache
def _load_function(path: str) -> Callable[[str], int]:
    return cast(Callable[[str], int], import_string(path))


Read = TypeVar("Read")


def cached_settings(read: Callable[..., Read]) -> "_lru_cache_wrapper[Read]":
    """Decorates a function that reads settings: it reads them once, and again after tests override some."""
    cached = cache(read)
    setting_changed.connect(lambda **_: cached.cache_clear(), weak=False)
    return cached


@cached_settings
def conf() -> Conf:
    given = {f.name: getattr(settings, f.name) for f in fields(Conf) if hasattr(settings, f.name)}
    return Conf(**given)


@dataclass(frozen=True, slots=True)
class StateShare:
    """The share of STATE_MAX_BYTES that a family of keys may take, and the bytes that a record of it takes."""

    share: float
    record_bytes: int

    @property
    def most_records(self) -> int:
        return max(1, int(conf().STATE_MAX_BYTES * self.share / self.record_bytes))

    @property
    def most_in_partition(self) -> int:
        """The records of one partition: names are spread evenly over the partitions."""
        return max(1, self.most_records // conf().STATE_PARTITIONS)


def partition_of(name: str) -> int:
    """The partition of `state` that has the keys of this name: of a work key, a registrable domain, a lock."""
    return crc32(name.encode()) % conf().STATE_PARTITIONS


def partition_root(app: str, partition: int) -> str:
    """The beginning of all keys of an app in one partition, with its hash tag, as `retry:{3}`.

    Keys of one tag are on one node of a Redis Cluster: a script has the root as its first key, and makes the names of
    all others from it (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags).
    """
    return f"{app}:{partition_tag(partition)}"


def partition_tag(partition: int) -> str:
    return f"{{{partition}}}"
