"""The load on a cluster while a part of it fails, and the judgement of it: answers, recovery, what is left."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from secrets import token_hex

from ..chaos import leftovers
from ..chaos.faults import Fault
from ..chaos.origins import Origin, file_at
from ..chaos.schedule import PATIENCE_SECONDS, QUIET_SECONDS, Suffered
from ..chaos.steady import End, Kind, Question, Record, Steady
from ..flows.slow.slow_content import SlowContent
from ..support.crowd import Crowd
from ..support.stack import eventually
from .hosts import Host
from .world import Cluster

FILES = 600
SETTLED_SECONDS = 90
MOST_SHOWN = 5
RATES = {"hot": 5.0, "cold": 3.0, "file": 2.0}
"""Visits a second of each kind."""
ROWS = """
import json
from resources.mirror.models import Blob, Resource
rows = Resource.objects.filter(url__startswith="{url}/")
digests = list(rows.values_list("blob_digest", flat=True))
print(json.dumps({{
    "rows": list(rows.values_list("url", "blob_digest")),
    "not uploaded": Blob.objects.filter(digest__in=digests, uploaded_at=None).count(),
}}))
"""


@dataclass(slots=True)
class Load:
    """Clients of the balancer that ask for hot and cold tiles and for files, and what they were told."""

    cluster: Cluster
    client: Steady
    origin: Origin
    suffered: list[Suffered] = field(default_factory=list)
    """What was done to the cluster meanwhile."""

    @property
    def records(self) -> Sequence[Record]:
        return self.client.records

    def ask_until_all_answer(self) -> None:
        """Waits until questions of each kind, begun from now on, have content."""
        assert self._recovery(time.monotonic()) is not None, "no quiet moment with answers of all kinds"

    @contextmanager
    def suffering(self, name: str) -> Iterator[None]:
        """A fault that holds for as long as the block runs. Waits for the recovery and notes it."""
        began = time.monotonic()
        yield
        self.note(name, began, time.monotonic())

    def note(self, name: str, began: float, ended: float) -> None:
        """Waits for the recovery from a fault that has ended, and notes both."""
        recovered = self._recovery(ended)
        fault = Fault(name, _held_by_the_block, ended - began)
        self.suffered.append(Suffered(fault, began, ended, recovered, time.monotonic()))
        assert recovered is not None, f"not recovered from within {PATIENCE_SECONDS} s: {name}"

    def _recovery(self, ended: float) -> float | None:
        """The end of the last visit without content, once all kinds have it again; None if that takes too long."""
        while time.monotonic() < ended + PATIENCE_SECONDS:
            time.sleep(0.1)
            last = max([ended, *(record.ended for record in [*self.records] if record.is_bad)])
            answered = {record.kind for record in [*self.records] if record.began >= last}
            is_quiet = time.monotonic() > last + QUIET_SECONDS and self.client.waits_since >= last
            if is_quiet and answered == set(RATES):
                return last
        return None


@contextmanager
def _held_by_the_block(_: object) -> Iterator[Callable[[], str]]:
    yield str


@contextmanager
def running(cluster: Cluster, hot: str) -> Iterator[Load]:
    """Clients, from when all their questions are answered until the block ends. `hot` is the address of a tile."""
    origin = Origin(cluster.network.gateway)
    origin.come()
    run = token_hex(4)
    try:
        paths = [f"/files/{run}/{number}" for number in range(FILES)]
        signed = cluster.hosts[0].manage("sign_url", *(origin.url + path for path in paths)).split()
        files = [address.removeprefix(cluster.base_url) for address in signed]
        with Crowd(cluster.base_url) as crowd:
            [tile] = {visit.body for visit in crowd.insist([hot] * 6)}
        kinds = [
            Kind("hot", RATES["hot"], lambda _: Question(hot, tile.__eq__)),
            Kind("cold", RATES["cold"], lambda number: _cold(f"{run}-{number}")),
            Kind("file", RATES["file"], lambda number: Question(files[number], file_at(paths[number]).__eq__)),
        ]
        with Steady(cluster.base_url, kinds) as client:
            load = Load(cluster, client, origin)
            load.ask_until_all_answer()
            yield load
    finally:
        origin.go()


def _cold(name: str) -> Question:
    return Question(f"/slow/{name}?seconds=0.2", SlowContent(name).body.__eq__)


def judge(load: Load, *, broken_at: Sequence[float] = ()) -> None:
    """Ends the clients, and raises AssertionError for what they must not have met, or what must not be left.

    `broken_at` are the times at which a host was killed: it takes with it the answers that it was sending.
    """
    load.client.leave()
    assert not load.client.died
    assert _wrong_answers(load.records, broken_at) == []
    cluster, records = load.cluster, load.records
    eventually(lambda: cluster.metric("tarry_waiting_clients") == 0, SETTLED_SECONDS, "nobody waits")
    with Crowd(cluster.base_url) as crowd:  # nothing that was asked for is lost
        addresses = sorted({record.address for record in records if record.kind != "hot"})
        assert all(visit.status == 200 for visit in crowd.insist(addresses, SETTLED_SECONDS))
    _require_no_leftovers(cluster)
    _require_no_double_stores(load)


def _wrong_answers(records: Sequence[Record], broken_at: Sequence[float]) -> list[str]:
    wrong = [record for record in records if not _is_honest(record, broken_at)]
    return [f"{one.end.value}: {one.kind} {one.statuses} {one.detail}" for one in wrong][:MOST_SHOWN]


def _is_honest(record: Record, broken_at: Sequence[float]) -> bool:
    """Content, or 503 that says when to come back."""
    if record.end is End.BROKEN:
        return any(record.began <= at <= record.ended for at in broken_at)
    return record.end is End.RIGHT or (record.end is End.REFUSED and record.statuses[-1] == 503)


def _require_no_leftovers(cluster: Cluster) -> None:
    state = cluster.stores.state
    eventually(lambda: not leftovers.marks(state), SETTLED_SECONDS, "no claim, queue or lease is left")
    eventually(lambda: not leftovers.counts(state), SETTLED_SECONDS, "nothing is counted as under way")
    for host in cluster.hosts:
        eventually(partial(has_no_files_left, host), SETTLED_SECONDS, f"{host.name} has no temporary file")


def has_no_files_left(host: Host) -> bool:
    return not leftovers.temporary_files(host.data, host.runtime)


def _require_no_double_stores(load: Load) -> None:
    """Each execution had a claim of its own; each file has one row, one object, and the right bytes."""
    for name in {record.address[6:].partition("?")[0] for record in load.records if record.kind == "cold"}:
        tokens = [event["token"] for host in load.cluster.hosts for event in host.events(name) if is_begin(event)]
        assert len(tokens) == len(set(tokens)), (name, tokens)
    told = _rows_when_uploaded(load)
    wanted = {url: sha256(file_at(url.removeprefix(load.origin.url))).hexdigest() for url, _ in told}
    assert sorted(told) == sorted(wanted.items())
    bucket = load.cluster.stores.bucket
    for url, digest in wanted.items():
        kept = bucket.body(f"mirror/{digest[:2]}/{digest[2:4]}/{digest}")
        assert kept == file_at(url.removeprefix(load.origin.url)), url


def is_begin(event: dict[str, object]) -> bool:
    return event["event"] == "start"


def _rows_when_uploaded(load: Load) -> list[tuple[str, str]]:
    found: dict[str, list[list[str]]] = {}

    def are_uploaded() -> bool:
        printed = load.cluster.hosts[0].manage("shell", "-v", "0", "-c", ROWS.format(url=load.origin.url))
        found.update(json.loads(printed.splitlines()[-1]))
        return not found["not uploaded"]

    eventually(are_uploaded, SETTLED_SECONDS, "all files are in the bucket")
    return [(url, digest) for url, digest in found["rows"]]
