"""What a unit of work costs, each with its source: a figure of the benchmarks, or an assumption. PURE."""

from dataclasses import dataclass

ASSUMED = "assumed"
KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Cost:
    """`shown` is the value as it is written. `source` is the name of a benchmark or of a page, or `assumed`."""

    value: float
    subject: str
    shown: str
    source: str

    def __mul__(self, number: float) -> float:
        return self.value * number

    __rmul__ = __mul__

    @property
    def line(self) -> str:
        """A row of the table of the documentation."""
        return f"| {self.subject} | {self.shown} | {self.source if self.source == ASSUMED else f'`{self.source}`'} |"


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes of a row in PostgreSQL, and of its entries in indexes, by `growth_rows`."""

    value: float
    indexes: float
    subject: str

    @property
    def line(self) -> str:
        return f"| {self.subject} | {self.value:,.0f} bytes, {self.indexes:.0f} in indexes | `growth_rows` |"


FRONT_CPU = Cost(2 / 71_600, "nginx, a cached answer", "0.028 ms of CPU, clients on the same machine", "peers_cached")
FRONT_EXTRA = Cost(790, "fields of an answer", "790 bytes", "blobs")
TILE_BYTES = Cost(14 * KB, "a cached content", "14 KB", "cached")
CACHE_EXTRA = Cost(1 * KB, "a content in `cache`, beside its bytes", "1 KB", "operations.md")
MAIN_MISS = Cost(0.0052, "main, a miss, both its visits", "5.2 ms of CPU", "misses")
MAIN_JOIN = Cost(0.0026, "main, a client that joins: its second visit finds the content in nginx", "2.6 ms", ASSUMED)
MAIN_HIT = Cost(0.001, "main, a cached content that nginx asks for", "1 ms of CPU", ASSUMED)
STATE_MISS = Cost(0.0011, "`state`, a cold content", "1.1 ms of CPU", "cluster_state")
STATE_JOIN = Cost(0.00025, "`state`, a client that joins", "0.25 ms of CPU", ASSUMED)
STATE_PAGE = Cost(0.0012, "`state`, a fetched page or feed", "1.2 ms of CPU", "cluster_state")
STATE_FILE = Cost(0.0016, "`state`, a mirrored file, from its report on", "1.6 ms of CPU", "cluster_state")
STATE_WORK_BYTES = Cost(2.6 * KB, "`state`, a waiting work", "2.6 KB", "operations.md")
STATE_JOB_BYTES = Cost(1.4 * KB, "`state`, a job or a domain of the frontier", "1.4 KB", "frontier")
STATE_BASE_BYTES = Cost(200 * MB, "`state`, popularity, traffic and marks, by their bounds", "200 MB", ASSUMED)
CACHE_MISS = Cost(0.00048, "`cache`, a cold content", "0.48 ms of CPU", "cluster_state")
CACHE_HIT = Cost(0.0001, "`cache`, a hit that main answers", "0.10 ms of CPU", "cluster_state")
CACHE_PAGE = Cost(0.00032, "`cache`, a fetched page or feed", "0.32 ms of CPU", "cluster_state")
CACHE_FILE = Cost(0.0001, "`cache`, a mirrored file", "0.10 ms of CPU", "cluster_state")
CLIENT_BYTES = Cost(13.3 * KB, "the waiting instance, a client", "13.3 KB", "memory")
PAINT_SECONDS = Cost(64 / 183 + 0.006, "a painter, a metatile of 64 tiles at zoom 10", "0.36 s of CPU", "painting")
PAINTER_BYTES = Cost(100 * MB, "a painter's memory", "100 MB", ASSUMED)
FETCH_CPU = Cost(0.0009, "a fetcher, a mirrored file", "0.9 ms of CPU", "peers_files")
FEED_CPU = Cost(0.005, "a fetcher, a feed without news", "5 ms of CPU", "operations.md")
NEWS_CPU = Cost(0.023, "a fetcher and its reader, a feed with news", "23 ms of CPU", "operations.md")
FETCH_SECONDS = Cost(2.0, "a fetch, until its answer is complete", "2 s", ASSUMED)
URL_CPU = Cost(0.0003, "storing a URL", "0.3 ms of CPU", "growth_urls")
LOOK_UP_CPU = Cost(0.000024, "looking a URL up in the database", "0.024 ms of CPU", "growth_urls")
SCAN_CPU = Cost(0.50 / 2000, "a scan, a due feed, in PostgreSQL", "0.25 ms", "ordering")
DATABASE_CPU = Cost(0.0003, "the database, a row that is written", "0.3 ms of CPU", ASSUMED)
READ_CPU = Cost(0.00002, "the database, a URL that is looked up", "0.02 ms of CPU", ASSUMED)
FILE_BYTES = Cost(50 * KB, "a mirrored file", "50 KB", ASSUMED)
FEED_BODY_BYTES = Cost(139 * KB, "a feed's document", "139 KB; with news only", "feed_reading")
URL_ROW = Row(342, 538, "a row of a mirrored URL")
BLOB_ROW = Row(241, 291, "a row of a content")
TIMING_ROW = Row(205, 245, "a row of a timing of a fetch")
FEED_ROW = Row(436, 510, "a row of a feed")
ENTRY_ROW = Row(2754, 243, "a row of an entry of 1,000 characters")
