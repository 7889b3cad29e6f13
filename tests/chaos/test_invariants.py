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
from .origins import HEAVY, HEAVY_BYTES, Origin, file_at
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
    ("path", "seconds", "is_late"),
    [
        ("/tiles/a", MAIN_BOUND - 0.1, False),
        ("/tiles/a", MAIN_BOUND + 0.1, True),
        ("/tiles/a", 24, True),
        ("/api/resources", API_BOUND - 0.1, False),
        ("/api/resources", API_BOUND + 0.1, True),
        ("/retry_after", WAITING_BOUND - 0.1, False),
        ("/retry_after", WAITING_BOUND + 0.1, True),
    ],
)
def test_each_request_of_a_visit_has_the_bound_of_its_answer(path: str, seconds: float, is_late: bool) -> None:
    legs = (Leg("/tiles/a", 0, 0.1), Leg(path, 0.1, seconds))
    visit = Record("tile", "/tiles/a", 0, 30, (302, 200), End.RIGHT, legs=legs)
    assert len([*of_answers([visit], [])]) == is_late


@pytest.mark.parametrize(
    ("name", "path", "seconds"),
    [
        ("nginx", "/tiles/a", MAIN_BOUND + 5),
        ("nginx", "/retry_after", WAITING_BOUND + 5),
        ("main", "/tiles/a", MAIN_BOUND + 5),
        ("main", "/retry_after", WAITING_BOUND),
        ("retry", "/retry_after", WAITING_BOUND + 5),
        ("retry", "/tiles/a", MAIN_BOUND),
        ("state", "/tiles/a", MAIN_BOUND),
    ],
)
def test_who_is_made_to_stand_still_has_so_much_longer(name: str, path: str, seconds: float) -> None:
    assert lateness.bound(Leg(path, 100, 30), [stopped(name, 110)]) == seconds


def test_only_the_time_that_a_request_met_counts() -> None:
    fault = stopped("main", 110)
    assert lateness.bound(Leg("/", 113, 30), [fault]) == MAIN_BOUND + 2
    assert lateness.bound(Leg("/", 100, 11), [fault]) == MAIN_BOUND + 1
    assert lateness.bound(Leg("/", 116, 30), [fault]) == MAIN_BOUND


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


@pytest.mark.parametrize(("sent", "asked"), [([100], [50, 101]), ([100, 101], [102])], ids=["one", "share a fetch"])
def test_pings_that_are_followed_by_a_fetch_and_a_page_are_kept(sent: list[float], asked: list[float]) -> None:
    assert [*lateness.of_pings(shown(pinged(*sent), len(sent), 103), {FEED: asked}, [])] == []


@pytest.mark.parametrize("asked", [[], [99.9], [99.9, 176]])
def test_a_ping_that_is_lost_is_told_though_a_later_one_is_kept(asked: list[float]) -> None:
    promises = shown(pinged(100, 200), 2, 203)
    [said] = lateness.of_pings(promises, {FEED: [*asked, 201]}, [])
    assert said.startswith(f"a ping was taken: {FEED} 1 was fetched after")


def test_a_ping_of_a_feed_that_is_never_asked_for_is_told() -> None:
    [said] = lateness.of_pings(pinged(100), {"/feeds/2": [101]}, [])
    assert "fetched not at all" in said


def test_what_was_fetched_and_then_lost_is_told() -> None:
    promises = shown(pinged(100, 200), 2, 203)
    [said] = lateness.of_pings(promises, {FEED: [101, 201]}, [])
    assert f"{FEED} 1 was shown after 103.0 s, not within 75 s" in said


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


def test_an_origin_keeps_when_feeds_were_asked_for_and_nothing_else() -> None:
    origin = Origin("127.0.0.1")
    for path in (FEED, "/files/well/1", FEED):
        origin.note(path)
    assert [(path, len(times)) for path, times in origin.asked.items()] == [(FEED, 2)]


def test_heavy_files_are_above_what_fetchers_keep_in_memory(settings: Settings) -> None:
    assert len(file_at(f"{HEAVY}20")) == HEAVY_BYTES > settings.FETCH_SPOOL_BYTES
    assert file_at(f"{HEAVY}20") != file_at(f"{HEAVY}24")


def test_what_a_job_leaves_in_redis_is_found_until_it_has_ended(redis_servers: RedisServers) -> None:
    state = redis_servers.state.client
    enqueue(job("1"), job("2"))
    assert leftovers.counts(state) == ["fetch:queued 2"]
    one = claimed()
    assert sorted(leftovers.counts(state)) == [f"fetch:domain:{one.scope} in_flight 1", "fetch:queued 1"]
    assert leftovers.marks(state) != []
    report(one)
    assert leftovers.counts(state) == ["fetch:queued 1"]


def test_temporary_files_are_found_wherever_they_are(tmp_path: Path) -> None:
    data, runtime = tmp_path / "data", tmp_path / "run"
    left = [
        data / "blobs" / "mirror" / "ab" / ".new-1",
        data / "spool" / "held-1" / "fetch-1",
        data / "uploads" / "tmp1.upload.geojson",
        data / "hot" / "f" / "de" / f"{'0' * 29}def.0000000042",
        runtime / "nginx" / "body" / "0000000001",
        runtime / "nginx" / "proxy" / "1" / "00" / "0000000001",
    ]
    kept = [data / "blobs" / "mirror" / "ab" / "cd", data / "uploads" / "turn-0", runtime / "nginx" / "nginx.conf"]
    kept.append(data / "hot" / "f" / "de" / f"{'0' * 29}def")
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert sorted(leftovers.temporary_files(data, runtime)) == sorted(map(str, left))
    with compile_process.upload_folder(data / "uploads") as held:
        assert str(held) in leftovers.temporary_files(data, runtime)
