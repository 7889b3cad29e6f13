"""What a load needs of each part of a site. PURE."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

from . import costs, popularity
from .costs import GB, KB
from .popularity import Requests

DAY = 86_400
HOT_SECONDS = 5
MACHINE_CORES, MACHINE_BYTES, MACHINE_NETWORK = 8, 32 * GB, 10 * GB / 8
CACHED_BYTES = costs.TILE_BYTES.value + costs.CACHE_EXTRA.value
MOST_BUSY = 0.7
"""The share of a part that is used as planned; the rest is for peaks, and for a machine that is away."""


@dataclass(frozen=True, slots=True)
class Load:
    """A load of one kind, or of several. All fields with a default are assumptions."""

    urls: float = 0
    feeds: float = 0
    waiting: float = 0
    hits: float = 0
    """A second, of cached content."""
    filled_in_days: float = 30
    looked_up_a_day: float = 1
    different: float = 0.7
    """Contents of a URL."""
    feed_seconds: float = 3600
    news: float = 0.1
    """The share of fetches of a feed that bring any, two entries each."""
    entries: float = 30
    """Of each feed."""
    timings_days: float = 30
    wait_seconds: float = 10
    clients_of_a_content: float = 100
    contents: int = 10_000_000
    skew: float = 0.9
    cold_share: float = 0.001

    def __post_init__(self) -> None:
        amounts = (self.urls, self.feeds, self.waiting, self.hits)
        if min(amounts) < 0 or not 0 <= self.cold_share < 1 or self.skew <= 0 or self.contents < 1:
            raise ValueError("a load has no negative amount, a share of cold content below 1 and a skew above 0")

    def times(self, factor: float) -> "Load":
        grown = {name: getattr(self, name) * factor for name in ("urls", "feeds", "waiting", "hits")}
        return replace(self, **grown)

    @property
    def file_rate(self) -> float:
        return self.urls / self.filled_in_days / DAY

    @property
    def feed_rate(self) -> float:
        return self.feeds / self.feed_seconds

    @property
    def waiting_rate(self) -> float:
        """Clients a second that begin to wait, by Little's law."""
        return self.waiting / self.wait_seconds

    @property
    def awaited_rate(self) -> float:
        """Contents a second that they wait for."""
        return self.waiting_rate / self.clients_of_a_content

    @property
    def cold_rate(self) -> float:
        return self.hits * self.cold_share

    @property
    def fetch_rate(self) -> float:
        return self.file_rate + self.feed_rate


@dataclass(frozen=True, slots=True)
class Needs:
    """CPU in cores, memory and disk in bytes, network in bytes a second."""

    fronts: int
    front_cpu: float
    front_network: float
    main_cpu: float
    clients: float
    painting_cpu: float
    sleeping_bytes: float
    """Of painters that wait for other computers."""
    fetch_cpu: float
    fetch_slots: float
    fetch_network: float
    work_cpu: float
    state_cpu: float
    frontier_cpu: float
    """Of `state`, in its first partition."""
    state_bytes: float
    cache_cpu: float
    due_feeds: float
    """A second."""
    database_cpu: float
    rows: float
    row_bytes: float
    index_bytes: float
    bucket_bytes: float
    uploads: float


@lru_cache(maxsize=4096)
def needs_of(load: Load) -> Needs:
    """Sums up what each kind of work of a load needs."""
    network = load.hits * (costs.TILE_BYTES.value + costs.FRONT_EXTRA.value)
    network += load.waiting_rate * (costs.TILE_BYTES.value + 3 * costs.FRONT_EXTRA.value)
    front_cpu = costs.FRONT_CPU * (load.hits + 3 * load.waiting_rate)
    fronts = max(1, ceil(max(network / MACHINE_NETWORK, front_cpu / MACHINE_CORES) / MOST_BUSY))
    asked = asked_of_main(load, fronts).rate if load.hits else 0.0
    rows, row_bytes, index_bytes, written = _rows(load)
    return Needs(
        fronts=fronts,
        front_cpu=front_cpu,
        front_network=network,
        main_cpu=_main_cpu(load, asked),
        clients=load.waiting,
        painting_cpu=costs.PAINT_SECONDS * load.cold_rate,
        sleeping_bytes=costs.PAINTER_BYTES.value * load.awaited_rate * load.wait_seconds,
        fetch_cpu=_fetch_cpu(load),
        fetch_slots=costs.FETCH_SECONDS * load.fetch_rate,
        fetch_network=_fetched_bytes(load),
        work_cpu=costs.SCAN_CPU * load.feed_rate + costs.LOOK_UP_CPU * _look_ups(load),
        state_cpu=_state_cpu(load),
        frontier_cpu=_frontier_cpu(load),
        state_bytes=_state_bytes(load),
        cache_cpu=costs.CACHE_HIT * asked
        + costs.CACHE_MISS * (load.cold_rate + load.awaited_rate)
        + costs.CACHE_PAGE * load.feed_rate
        + costs.CACHE_FILE * load.file_rate,
        due_feeds=load.feed_rate,
        database_cpu=costs.DATABASE_CPU * written + costs.READ_CPU * _look_ups(load),
        rows=rows,
        row_bytes=row_bytes,
        index_bytes=index_bytes,
        bucket_bytes=costs.FILE_BYTES * load.urls * load.different,
        uploads=load.file_rate * load.different,
    )


def asked_of_main(load: Load, fronts: int, *, hot_seconds: float = HOT_SECONDS) -> Requests:
    """Requests that nginx passes on: each front asks for a content once in so many seconds, if it is requested."""
    wanted = popularity.zipf(load.contents, load.skew, load.hits)
    return wanted.after_fresh_copies(hot_seconds, fronts)


def cached_bytes(load: Load, fronts: int) -> float:
    """Memory of a `cache` that evicts no more of what is requested again than is cold for other reasons."""
    return CACHED_BYTES * popularity.capacity_for(asked_of_main(load, fronts), load.cold_rate)


def evicted_share(load: Load, fronts: int, memory: float) -> float:
    """The share of all hits that a `cache` of so many bytes has evicted."""
    asked = asked_of_main(load, fronts)
    return asked.missed(popularity.kept_seconds(asked, memory / CACHED_BYTES)) / load.hits


def _main_cpu(load: Load, asked: float) -> float:
    misses = load.cold_rate + load.awaited_rate
    joins = load.waiting_rate - load.awaited_rate
    return costs.MAIN_HIT * asked + costs.MAIN_MISS * misses + costs.MAIN_JOIN * joins


def _look_ups(load: Load) -> float:
    return load.urls * load.looked_up_a_day / DAY


def _fetch_cpu(load: Load) -> float:
    feeds = costs.FEED_CPU * (1 - load.news) + costs.NEWS_CPU * load.news
    return (costs.FETCH_CPU.value + costs.URL_CPU.value) * load.file_rate + feeds * load.feed_rate


def _fetched_bytes(load: Load) -> float:
    """A second. A file of a known content is mostly spared; a feed without news is a 304, of a KB."""
    feeds = costs.FEED_BODY_BYTES * load.news + KB
    return costs.FILE_BYTES * load.file_rate * load.different + feeds * load.feed_rate


def _state_cpu(load: Load) -> float:
    cold = costs.STATE_MISS * (load.cold_rate + load.awaited_rate)
    joined = costs.STATE_JOIN * (load.waiting_rate - load.awaited_rate)
    return cold + joined + _frontier_cpu(load)


def _frontier_cpu(load: Load) -> float:
    return costs.STATE_PAGE * load.feed_rate + costs.STATE_FILE * load.file_rate


def _state_bytes(load: Load) -> float:
    """Works and jobs of a minute, in case that nothing takes them for as long."""
    works = load.awaited_rate * load.wait_seconds + load.cold_rate * 60
    return costs.STATE_BASE_BYTES.value + costs.STATE_WORK_BYTES * works + _job_bytes(load)


def _job_bytes(load: Load) -> float:
    return (costs.STATE_JOB_BYTES.value + costs.STATE_WORK_BYTES.value) * load.fetch_rate * 60


def _rows(load: Load) -> tuple[float, float, float, float]:
    """Rows, their bytes, those of their entries in indexes, and rows written a second."""
    tables = (
        (costs.URL_ROW, load.urls),
        (costs.BLOB_ROW, load.urls * load.different),
        (costs.TIMING_ROW, load.fetch_rate * load.timings_days * DAY),
        (costs.FEED_ROW, load.feeds),
        (costs.ENTRY_ROW, load.feeds * load.entries),
    )
    written = load.file_rate * (2 + load.different) + load.feed_rate * (2 + 2 * load.news)
    stored = sum(row.value * number for row, number in tables)
    indexed = sum(row.indexes * number for row, number in tables)
    return sum(number for _, number in tables), stored, indexed, written
