"""The log of traffic: one line for each request of content, without the client's identity."""

import time
from pathlib import Path
from typing import Any

import pytest

from project.supervisor import TrafficLog
from resources.traffic import counter, log_files
from resources.traffic.counter import LineFields

from ..support.stack import eventually
from .conftest import RunningFront, Start
from .origin import PRIVATE, Answer

TILE = "/tiles/jams/1/0/0.png"


LOG = Path("logs/traffic.log")
COUNTED: dict[str, Any] = {"traffic_log": LOG, "counted": ("/tiles/",)}
READ: dict[str, Any] = {"traffic_log": LOG, "counted": ("/tiles/", "/feeds/"), "read": ("/feeds/",)}


@pytest.fixture
def site(start: Start) -> RunningFront:
    return start(**COUNTED)


def logged(site: RunningFront, number: int) -> list[LineFields]:
    """The fields of this many lines; there are no more, and none that cannot be read."""
    log = site.front.data.traffic

    def is_written() -> bool:
        site.flush_logs()
        return log.read_bytes().count(b"\n") >= number

    eventually(is_written, 5, f"{number} lines")
    written = log.read_bytes().splitlines()
    assert len(written) == number
    found = counter.parse_lines(b"\n".join(written))
    assert len(found) == number
    return found


def test_each_request_of_content_has_a_line(site: RunningFront) -> None:
    began = time.time()
    for _ in range(3):
        site.get(TILE)
    site.get(TILE, method="HEAD")
    found = logged(site, 4)
    assert [(status, cache_status, method) for _, status, cache_status, method, *_ in found] == [
        (b"200", b"MISS", b"GET"),
        (b"200", b"HIT", b"GET"),
        (b"200", b"HIT", b"GET"),
        (b"200", b"HIT", b"HEAD"),
    ]
    assert {address for *_, address in found} == {TILE.encode()}
    assert all(began - 1 < float(moment) < time.time() + 1 for moment, *_ in found)


def test_only_content_has_lines(site: RunningFront) -> None:
    for path in ("/", "/static/x.css", "/admin/", "/healthz", "/metrics", "/retry_after?x=1", "/api/layers", "/til"):
        site.get(path)
    site.get(TILE)
    logged(site, 1)


def test_addresses_are_normalised_and_without_arguments(site: RunningFront) -> None:
    for target in (
        "//tiles/x/../jams/1/0/0.png?token=secret",
        "/%74iles/jams/1/0/0%2Epng",
        "/tiles/a%20b/%C3%A9%22%0A",
    ):
        site.get(target)
    written = [address for *_, address in logged(site, 3)]
    assert written == [TILE.encode(), TILE.encode(), rb"/tiles/a b/\xC3\xA9\x22\x0A"]
    assert b"secret" not in site.front.data.traffic.read_bytes()


def test_arguments_that_name_content_are_a_part_of_its_address(start: Start) -> None:
    site = start(traffic_log=LOG, counted=("/staticmap", "/tiles/"), with_arguments={"/staticmap": ("layers", "zoom")})
    for target in (
        "/staticmap?zoom=3&layers=a%2Cb,c",
        "/staticmap?zoom=3&token=secret",
        "/staticmap?zoom=se/cret",
        f"/staticmap?zoom={'1' * 1000}",
        "/staticmap",
        f"{TILE}?zoom=3",
    ):
        site.get(target)
    written = [address for *_, address in logged(site, 6)]
    assert written == [b"/staticmap?zoom=3&layers=a%2Cb,c", *[b"/staticmap"] * 4, TILE.encode()]


def test_no_line_identifies_the_client(site: RunningFront) -> None:
    site.get(TILE, Cookie="session=of-somebody", User_Agent="somebody's", Referer="http://somewhere")
    logged(site, 1)
    text = site.front.data.traffic.read_text()
    assert "127.0.0.1" not in text
    assert "some" not in text


def test_where_readers_are_counted_a_number_stands_for_each(start: Start) -> None:
    site = start(**READ, reader_salt="salt")
    readers = [f"reader {number}" for number in range(40)]
    for reader in [*readers, *readers]:
        site.get("/feeds/sea.atom", User_Agent=reader)
    site.get(TILE, User_Agent=readers[0])
    found = [reader for *_, reader, _ in logged(site, 81)]
    assert found[:40] == found[40:80]
    assert len(set(found[:40])) == 40
    assert all(reader.isdigit() and len(reader) == 6 for reader in found[:40])
    assert found[80] == b""
    assert "127.0.0.1" not in site.front.data.traffic.read_text()


@pytest.mark.parametrize("network", ["2001:db8:1:2", "2001:db8:0:0"])
def test_a_reader_is_one_whatever_address_of_its_network_it_has(start: Start, network: str) -> None:
    site = start(trusted_proxies=("127.0.0.1",), **READ, reader_salt="salt")
    for address in (f"{network}:0:0:0:1", f"{network}:a:b:c:d", "2001:db8:1:103:0:0:0:1", "192.0.2.1", "192.0.2.2"):
        site.get("/feeds/sea.atom", User_Agent="reader", X_Forwarded_For=address)
    found = [reader for *_, reader, _ in logged(site, 5)]
    assert found[0] == found[1]
    assert len(set(found)) == 4


def test_readers_are_other_numbers_at_another_site(start: Start) -> None:
    def number(salt: str) -> bytes:
        site = start(**READ, reader_salt=salt)
        site.get("/feeds/sea.atom", User_Agent="reader")
        return logged(site, 1)[0][4]

    assert number("salt") != number("other")


def test_a_request_of_the_waiting_instance_has_no_line(site: RunningFront) -> None:
    site.get_by_socket(TILE)
    site.get(TILE, site.host.upper())
    assert [cache_status for _, _, cache_status, *_ in logged(site, 1)] == [b"HIT"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [(Answer(hang_up=True), 503), (Answer(302, {**PRIVATE, "Location": "/retry_after?x=1"}), 302)],
    ids=["a dying main", "a redirect"],
)
def test_an_answer_is_logged_once_with_its_status(site: RunningFront, answer: Answer, status: int) -> None:
    site.main.answer = lambda _: answer
    assert site.get(TILE).status == status
    [(_, logged_status, *_, address)] = logged(site, 1)
    assert (logged_status, address) == (str(status).encode(), TILE.encode())


def test_a_refresh_in_the_background_has_no_line(site: RunningFront) -> None:
    brief = {"Cache-Control": "public, max-age=1, s-maxage=1, stale-while-revalidate=60"}
    site.main.answer = lambda _: Answer(headers=brief)
    site.get(TILE)
    requests = 1

    def is_refreshed() -> bool:
        nonlocal requests
        site.get(TILE)
        requests += 1
        return len(site.main.asked) > 1

    eventually(is_refreshed, 10, "a refresh in the background")
    assert {cache_status for _, _, cache_status, *_ in logged(site, requests)} >= {b"MISS", b"STALE"}


def test_without_measuring_there_is_no_log(start: Start) -> None:
    site = start()
    site.get(TILE)
    assert not site.front.data.traffic.exists()


def test_a_log_that_was_renamed_is_opened_anew(launch: Start) -> None:
    own_site = launch(**COUNTED)
    log, pid_file = own_site.front.data.traffic, own_site.front.runtime.nginx_pid
    log.rename(log.with_name("traffic.log.1"))
    assert log_files.rotate_log(log, 1_000_000, pid_file, time.time())
    eventually(log.exists, 5, "nginx has opened its log anew")
    assert not log_files.rotate_log(log, 1_000_000, pid_file, time.time())


def test_where_no_worker_counts_supervisord_bounds_what_is_kept(launch: Start) -> None:
    own_site = launch(**COUNTED)
    log, lost = own_site.front.data.traffic, 0
    for _ in range(8):
        eventually(log.exists, 5, "nginx has opened its log anew")
        with log.open("a") as file:
            file.write("a line\n" * 200)
        lost += TrafficLog(log, 500, own_site.front.runtime.nginx_pid).keep_bounded()
    assert [path.stat().st_size for path in log.parent.glob("traffic.log.*")] == [1400] * 3
    assert lost == 1400 * 5
    eventually(log.exists, 5, "nginx has opened its log anew")
    own_site.get(TILE)
    logged(own_site, 1)


def test_supervisord_leaves_to_workers_what_they_have_not_had_time_for(site: RunningFront) -> None:
    log = site.front.data.traffic
    log.write_text("x" * 1999)
    assert TrafficLog(log, 1000, site.front.runtime.nginx_pid).keep_bounded() == 0
    assert log.stat().st_size == 1999
