"""The answers that the front caches, and the clients that get them."""

import threading
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import psutil
import pytest

from project import beat, nginx_reload, supervisor
from resources.disk.shares import HOT_BURST_SECONDS

from ..support.stack import eventually
from .conftest import RunningFront, Start
from .origin import HOT, Answer, Asked


@pytest.mark.parametrize("status", [200, 302])
@pytest.mark.parametrize("control", [None, "no-store", "max-age=60", "private, max-age=60"])
def test_what_does_not_say_public_is_not_kept(site: RunningFront, control: str | None, status: int) -> None:
    site.main.answer = lambda _: Answer(status, {"Cache-Control": control} if control else {}, b"")
    site.get("/feeds/")
    site.main.answer = lambda _: Answer()
    assert (site.get("/feeds/").status, len(site.main.asked)) == (200, 2)


@pytest.mark.parametrize("mark", ["X-Delivered-Large", "X-Not-Kept"])
def test_what_main_marks_is_passed_on_and_not_kept(site: RunningFront, mark: str) -> None:
    site.main.answer = lambda _: Answer(headers={**HOT, mark: "1"}, body=b"large")
    found = [site.get("/resources/a") for _ in range(2)]
    assert [(reply.body, reply.cached) for reply in found] == [(b"large", False)] * 2
    assert all(mark not in reply.headers for reply in found)
    assert len(site.main.asked) == 2


@pytest.mark.parametrize("target", ["/admin/", "/admin", "/metrics", "/healthz", "/retry_after?key=1"])
def test_private_places_are_never_kept(site: RunningFront, target: str) -> None:
    for answer in (site.get(target), site.get(target)):
        assert (answer.status, answer.cached, "Server-Timing" in answer.headers) == (200, False, False)


def test_head_is_answered_from_the_same_entry(site: RunningFront) -> None:
    site.get("/tiles/a", method="HEAD")
    # nginx answers as soon as it has the header, and stores when it has all.
    eventually(lambda: site.get("/tiles/a", method="HEAD").cached, 5, "it is stored")
    assert site.get("/tiles/a").cached
    assert {asked.method for asked in site.main.asked} == {"GET"}


@pytest.mark.parametrize(("status", "headers"), [(404, {}), (416, {"Range": "bytes=50-60"})])
def test_refusals_from_the_cache_say_that_they_are(site: RunningFront, status: int, headers: dict[str, str]) -> None:
    kept = {**HOT, "Cache-Control": "public, max-age=60", "Accept-Ranges": "bytes", "Cache-Status": "Tarry; fwd=bypass"}
    site.main.answer = lambda _: Answer(200 if status == 416 else status, headers=kept, body=b"0123456789")
    assert site.get("/tiles/a").headers.get_all("Cache-Status") == ["Tarry; fwd=bypass"]
    refusal = site.get("/tiles/a", **headers)
    assert refusal.status == status
    assert refusal.headers.get_all("Cache-Status") == ["Tarry; fwd=bypass", "nginx; hit"]


def test_a_kept_problem_is_no_page_and_the_other_way_round(site: RunningFront) -> None:
    def refuse(asked: Asked) -> Answer:
        kept = {"Cache-Control": "public, max-age=60", "Vary": "Accept, Sec-Fetch-Mode"}
        return Answer(404, kept, asked.headers["accept"].encode())

    site.main.answer = refuse
    for _ in range(2):
        for accept in ("text/html", "application/json"):
            assert site.get("/feeds/none/", Accept=accept).body == accept.encode()
    assert len(site.main.asked) == 2


def test_no_worker_holds_on_to_an_entry_that_was_replaced(start: Start) -> None:
    site = start(small=False)
    kept = {"Cache-Control": "public, s-maxage=1, stale-while-revalidate=30"}
    site.main.answer = lambda _: Answer(headers=kept, body=b"old")
    assert {site.get("/tiles/a").body for _ in range(20)} == {b"old"}
    time.sleep(2.1)  # nginx counts whole seconds
    site.main.answer = lambda _: Answer(headers={**HOT, "X-Refreshed": "yes"}, body=b"new")
    eventually(lambda: site.get("/tiles/a").body == b"new", 5, "it is replaced")
    assert {site.get("/tiles/a").body for _ in range(20)} == {b"new"}


def test_cookies_reach_the_admin_only(site: RunningFront) -> None:
    site.main.answer = lambda _: Answer(headers={**HOT, "Set-Cookie": "session=secret"})
    assert "Set-Cookie" not in site.get("/tiles/a", Cookie="session=mine").headers
    assert "cookie" not in site.main.asked[-1].headers
    assert site.get("/admin/", Cookie="session=mine").headers["Set-Cookie"] == "session=secret"
    assert site.main.asked[-1].headers["cookie"] == "session=mine"


def test_what_is_forgotten_is_asked_for_again(site: RunningFront) -> None:
    for _ in range(2):
        kept = site.get("/tiles/a")
    site.main.answer = lambda _: Answer(headers=HOT, body=b"new")
    assert kept.cached
    assert site.get("/tiles/a").body == kept.body
    assert beat.forget_hot_answers(site.front.data.hot, site.front.runtime.nginx_pid)
    eventually(lambda: site.get("/tiles/a").body == b"new", 5, "it is asked for again")
    assert site.get("/tiles/a").cached
    assert not any(word in site.log.read_text() for word in ("[crit]", "[alert]", "[emerg]"))


def test_what_a_killed_worker_was_writing_is_removed_and_what_another_writes_stays(launch: Start) -> None:
    site, ends = launch(), threading.Event()
    site.main.answer = lambda _: Answer(headers={**HOT, "Content-Length": "9000"}, body=b"half", goes_on=ends)

    def ask() -> None:
        with suppress(HTTPException, OSError):
            site.get("/tiles/a")

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        eventually(lambda: [*site.front.data.hot.glob("*/*.*")], 5, "nginx writes it")
        assert supervisor.remove_unfinished_files(site.front.data.hot) == 0
        [file] = site.front.data.hot.glob("*/*.*")
        for worker in psutil.Process(nginx_reload.running_nginx(site.front.runtime.nginx_pid)).children():
            worker.kill()
        eventually(lambda: supervisor.remove_unfinished_files(site.front.data.hot) == 1, 5, "it is removed")
        assert not file.exists()
    finally:
        ends.set()
        asking.join(10)


def test_without_an_nginx_nothing_is_forgotten(tmp_path: Path) -> None:
    assert not beat.forget_hot_answers(tmp_path, tmp_path / "nginx.pid")


def test_nginx_exceeds_the_bound_of_the_hot_cache_for_ten_seconds_at_the_most(launch: Start) -> None:
    most, number = 2_000_000, 100
    site = launch(hot_max_bytes=most)
    site.main.answer = lambda _: Answer(headers=HOT, body=b"x" * 100_000)
    for place in range(number):
        site.get(f"/tiles/{place}")

    def kept() -> int:
        return sum(file.stat().st_blocks * 512 for file in site.front.data.hot.rglob("*") if file.is_file())

    assert kept() > 2 * most
    eventually(lambda: kept() <= most, HOT_BURST_SECONDS + 2, "nginx empties it")
