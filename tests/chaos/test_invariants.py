"""The judgements of the chaos run: late, lost, left behind."""

from pathlib import Path

import pytest
from pytest_django import Settings

from resources.tiles import compile_process

from ..conftest import RedisServers
from ..support.frontier import claimed, enqueue, job, report
from ..support.server import Handler, serving
from ..support.stack import eventually
from . import lateness, leftovers
from .faults import pauses
from .invariants import FORGETTING, of_answers, settled_by
from .origins import HEAVY, HEAVY_BYTES, file_at
from .promises import Promises
from .resource_faults import of_stores
from .schedule import Suffered
from .steady import End, Kind, Leg, Question, Record, Steady

FEED = "/feeds/1"
MAIN_BOUND, WAITING_BOUND, API_BOUND = 10, 15, 25


def stopped(name: str, began: float, seconds: float = 5, recovered: float = 0) -> Suffered:
    [fault] = [one for one in pauses() if one.name == f"SIGSTOP {name}"]
    ended = began + seconds
    return Suffered(fault, began, ended, max(ended, recovered), max(ended, recovered) + 2)


@pytest.mark.parametrize(
    ("path", "bound"), [("/tiles/a", MAIN_BOUND), ("/api/resources", API_BOUND), ("/retry_after", WAITING_BOUND)]
)
def test_each_request_of_a_visit_has_the_bound_of_its_answer(path: str, bound: float) -> None:
    for seconds in (bound - 0.1, bound + 0.1):
        legs = (Leg("/tiles/a", 0, 0.1), Leg(path, 0.1, seconds))
        visit = Record("tile", "/tiles/a", 0, 30, (302, 200), End.RIGHT, legs=legs)
        assert bool([*of_answers([visit], [])]) is (seconds > bound)


def test_who_is_made_to_stand_still_has_so_much_longer() -> None:
    for name, more_of_main, more_of_waits in (("nginx", 5, 5), ("main", 5, 0), ("retry", 0, 5), ("state", 0, 0)):
        assert lateness.bound(Leg("/tiles/a", 100, 30), [stopped(name, 110)]) == MAIN_BOUND + more_of_main
        assert lateness.bound(Leg("/retry_after", 100, 30), [stopped(name, 110)]) == WAITING_BOUND + more_of_waits
    for began, seconds, more in ((113, 30, 2), (100, 11, 1), (116, 30, 0)):  # only the time that it met counts
        assert lateness.bound(Leg("/", began, seconds), [stopped("main", 110)]) == MAIN_BOUND + more


class Redirecting(Handler):
    """Redirects requests for a tile, answers there, and ends the connection of all others."""

    def do_GET(self) -> None:  # noqa: N802  as the library calls it
        if self.path == "/tiles/a":
            self.answer(302, b"", Location="/retry_after?key=a")
        elif self.path.startswith("/retry_after"):
            self.answer(200, b"right")
        self.close_connection = True


@pytest.mark.parametrize(("address", "paths"), [("/tiles/a", ["/tiles/a", "/retry_after"]), ("/gone", ["/gone"])])
def test_the_client_times_each_request_of_a_visit_answered_or_not(address: str, paths: list[str]) -> None:
    kind = Kind("tile", 10, lambda _: Question(address, b"right".__eq__))
    with serving(Redirecting) as url, Steady(url, [kind]) as client:
        eventually(lambda: client.records, 10, "a visit has ended")
    visit = client.records[0]
    assert [leg.path for leg in visit.legs] == paths
    assert visit.legs[0].began >= visit.began
    assert 0 < sum(leg.seconds for leg in visit.legs) <= visit.ended - visit.began


def pinged(*sent: float) -> Promises:
    """Pings of one feed for its editions 1, 2 and so on."""
    promises = Promises()
    for edition, at in enumerate(sent, start=1):
        promises.hear_ping(FEED, edition, at)
    return promises


def shown(promises: Promises, edition: int, at: float) -> Promises:
    promises.shown[FEED, edition] = at
    return promises


@pytest.mark.parametrize(
    ("sent", "asked", "late"),
    [
        pytest.param([100], [50, 101], "", id="kept"),
        pytest.param([100, 101], [102], "", id="two share a fetch"),
        pytest.param([100, 200], [201], "1 was fetched after 101", id="lost, the next is kept"),
        pytest.param([100, 200], [99.9, 201], "1 was fetched after 101", id="fetched before the ping"),
        pytest.param([100, 200], [99.9, 176, 201], "1 was fetched after 76", id="fetched too late"),
        pytest.param([100, 200], [101, 201], "1 was shown after 103.0 s, not within 75 s", id="fetched and then lost"),
        pytest.param([100], [], "1 was fetched not at all", id="never fetched"),
    ],
)
def test_a_ping_is_kept_by_a_fetch_and_a_page_in_time(sent: list[float], asked: list[float], late: str) -> None:
    promises = shown(pinged(*sent), len(sent), sent[-1] + 3)
    said = [*lateness.of_pings(promises, ({FEED: asked} if asked else {"/feeds/2": [101]}), [])]
    assert len(said) == bool(late)
    assert all(f"a ping was taken: {FEED} {late}" in one for one in said)


def test_faults_and_their_recoveries_give_a_ping_more_time() -> None:
    promises, asked = shown(pinged(100), 1, 180), {FEED: [179.0]}
    assert len([*lateness.of_pings(promises, asked, [])]) == 1
    assert len([*lateness.of_pings(promises, asked, [stopped("fetch", 200)])]) == 1
    assert [*lateness.of_pings(promises, asked, [stopped("fetch", 99, 1, recovered=106)])] == []


def test_what_state_has_forgotten_has_more_time_to_be_found_again() -> None:
    [forgetting] = [one for one in of_stores(disk=True) if one.name == FORGETTING]
    assert settled_by(100, [stopped("fetch", 90)]) == 190
    assert settled_by(100, [Suffered(forgetting, 80, 80, 85, 87)]) == 230
    assert settled_by(100, [Suffered(forgetting, skipped="no time was left")]) == 190


def test_heavy_files_are_above_what_fetchers_keep_in_memory(settings: Settings) -> None:
    assert len(file_at(f"{HEAVY}20")) == HEAVY_BYTES > settings.FETCH_SPOOL_BYTES
    assert file_at(f"{HEAVY}20") != file_at(f"{HEAVY}24")


def test_what_a_job_leaves_in_redis_is_found_until_it_has_ended(redis_servers: RedisServers) -> None:
    state = redis_servers.state.client
    enqueue(job("1"), job("2"))
    assert leftovers.counts(state) == ["fetch:{0}:queued 2"]
    one = claimed()
    assert sorted(leftovers.counts(state)) == [f"fetch:{{0}}:domain:{one.scope} in_flight 1", "fetch:{0}:queued 1"]
    assert leftovers.marks(state) != []
    report(one)
    assert leftovers.counts(state) == ["fetch:{0}:queued 1"]


def test_temporary_files_are_found_wherever_they_are(tmp_path: Path) -> None:
    data, runtime = tmp_path / "data", tmp_path / "run"
    answer = f"hot/de/{'0' * 29}def"
    of_site = ("blobs/mirror/ab/.new-1", "spool/held-1/fetch-1", "uploads/tmp1.upload.geojson", f"{answer}.0000000042")
    of_nginx = ("nginx/body/0000000001", "nginx/proxy/1/00/0000000001")
    left = [*(data / name for name in of_site), *(runtime / name for name in of_nginx)]
    kept = [*(data / name for name in ("blobs/mirror/ab/cd", "uploads/turn-0", answer)), runtime / "nginx/nginx.conf"]
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert sorted(leftovers.temporary_files(data, runtime)) == sorted(map(str, left))
    with compile_process.upload_folder(data / "uploads") as held:
        assert str(held) in leftovers.temporary_files(data, runtime)
