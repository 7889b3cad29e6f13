"""Mirrored files that nginx serves straight from the storage: with all that main says of them, and only plainly."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from project import nginx_config
from project.nginx_config import FrontConfig, render_templates
from resources.mirror.file_headers import BY_DIGEST, DIRECT_ENDINGS, delivery_fields
from resources.traffic import counter

from ..support.stack import eventually
from .conftest import RunningFront
from .origin import Answer

BODY = bytes(range(256)) * 40
DIGEST = sha256(BODY).hexdigest()
ETAG = f'"{DIGEST}"'
ADDRESS = f"/resources/{DIGEST}"
STORED = datetime(2026, 11, 21, 22, 30, tzinfo=UTC)
DATE = "Sat, 21 Nov 2026 22:30:00 GMT"
HOT_SECONDS = 4
"""As few as can be kept: links are believed for a second."""


def link(front: FrontConfig, media_type: str) -> Path:
    """Main's answer to a request for a file."""
    path = front.data.blobs / "served" / DIGEST[:2] / f"{DIGEST}.{DIRECT_ENDINGS[media_type]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(BODY)
    os.utime(path, (STORED.timestamp(), STORED.timestamp()))
    return path


@pytest.fixture
def site(front: FrontConfig, start: Callable[..., RunningFront]) -> RunningFront:
    """A front with such a folder, whose main has nothing."""
    log = front.data.traffic
    running = start(
        served=front.data.blobs / "served", hot_seconds=HOT_SECONDS, traffic_log=log, counted=("/resources/",)
    )
    running.main.answer = lambda _: Answer(404, {"Cache-Control": "no-store"})
    return running


@pytest.mark.parametrize("media_type", DIRECT_ENDINGS)
def test_all_fields_are_those_that_main_gives(site: RunningFront, media_type: str) -> None:
    link(site.front, media_type)
    reply = site.get(ADDRESS)
    assert (reply.status, reply.body) == (200, BODY)
    said = {
        **delivery_fields(media_type, DIGEST, STORED, BY_DIGEST, HOT_SECONDS),
        "Cache-Status": nginx_config.FILE_CACHE_STATUS,
    }
    of_the_server = {"Server", "Date", "Connection", "Content-Length", "Server-Timing"}
    got = {name: ", ".join(reply.headers.get_all(name, [])) for name in reply.headers if name not in of_the_server}
    assert got == said
    assert site.main.asked == []


@pytest.fixture
def image(site: RunningFront) -> Path:
    return link(site.front, "image/jpeg")


def test_parts_and_heads(site: RunningFront, image: Path) -> None:
    part = site.get(f"{ADDRESS}?x=1", Range="bytes=100-199")
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, BODY[100:200], f"bytes 100-199/{len(BODY)}")
    assert part.headers["ETag"] == ETAG
    assert site.get(ADDRESS, Range=f"bytes={len(BODY)}-").status == 416
    head = site.get(ADDRESS, method="HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(BODY)))
    assert site.main.asked == []


@pytest.mark.parametrize(("condition", "status"), [(ETAG, 206), (DATE, 206), ('"another"', 200)])
def test_a_part_is_of_the_content_that_the_client_has_begun(
    site: RunningFront, image: Path, condition: str, status: int
) -> None:
    assert site.get(ADDRESS, Range="bytes=100-199", If_Range=condition).status == status


@pytest.mark.parametrize(("date", "status"), [(DATE, 304), (DATE.replace("2026", "2025").replace("Sat", "Fri"), 200)])
def test_who_has_it_since_then_is_told_so(site: RunningFront, image: Path, date: str, status: int) -> None:
    reply = site.get(ADDRESS, If_Modified_Since=date)
    assert (reply.status, reply.headers["ETag"]) == (status, ETAG)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {}),
        ("OPTIONS", {}),
        ("GET", {"If_None_Match": ETAG}),
        ("GET", {"If_Match": ETAG}),
        ("GET", {"If_Unmodified_Since": DATE}),
    ],
)
def test_what_must_be_judged_goes_to_main(
    site: RunningFront, image: Path, method: str, headers: dict[str, str]
) -> None:
    body = {"Content-Length": "0"} if method == "POST" else {}
    assert site.get(ADDRESS, method=method, **headers, **body).status == 404
    assert [(asked.method, asked.target) for asked in site.main.asked] == [(method, ADDRESS)]


def test_what_has_no_link_goes_to_main_and_is_kept_as_ever(site: RunningFront) -> None:
    said = {"Cache-Control": "public, s-maxage=60", "ETag": ETAG, "Accept-Ranges": "bytes"}
    site.main.answer = lambda _: Answer(headers=said, body=BODY)
    first, again = site.get(f"{ADDRESS}?x=1"), site.get(ADDRESS, Range="bytes=0-9")
    assert (first.body, again.body, again.cached) == (BODY, BODY[:10], True)
    assert [asked.target for asked in site.main.asked] == [ADDRESS]


@pytest.mark.parametrize(
    "address",
    [
        f"/served/{DIGEST[:2]}/{DIGEST}.jpeg",
        f"/{DIGEST[:2]}/{DIGEST}.jpeg",
        f"{ADDRESS}.jpeg",
        f"/resources/{DIGEST[:2]}/{DIGEST}.jpeg",
        f"{ADDRESS}/",
        f"{ADDRESS.upper()}",
    ],
)
def test_there_is_one_address_for_it(site: RunningFront, image: Path, address: str) -> None:
    assert site.get(address).status == 404


def test_without_its_link_it_is_gone_as_soon_as_links_are_looked_at_again(site: RunningFront, image: Path) -> None:
    assert site.get(ADDRESS).status == 200
    image.unlink()
    eventually(lambda: site.get(ADDRESS).status == 404, HOT_SECONDS, "it is gone")


def test_what_is_found_and_cannot_be_read_goes_to_main_by_its_address(site: RunningFront, image: Path) -> None:
    image.unlink()
    os.mkfifo(image)  # as good as a file that is removed between two looks
    assert site.get(f"{ADDRESS}?x=1").status == 404
    assert [asked.target for asked in site.main.asked] == [ADDRESS]


def test_a_link_is_found_as_soon_as_links_are_looked_at_again(site: RunningFront) -> None:
    assert site.get(ADDRESS).status == 404
    link(site.front, "application/octet-stream")
    eventually(lambda: site.get(ADDRESS).status == 200, HOT_SECONDS, "it is served")


def test_main_that_is_away_is_told_as_ever(site: RunningFront) -> None:
    site.main.answer = lambda _: Answer(hang_up=True)
    assert site.get(ADDRESS).status == 503


def test_it_counts_as_answered_by_nginx_itself(site: RunningFront, image: Path) -> None:
    for method in ("GET", "HEAD"):
        site.get(ADDRESS, method=method)
    log = site.front.data.traffic
    eventually(lambda: log.read_bytes().count(b"\n") >= 2, 5, "two lines")
    for _, status, answered_by, asked, _, address in counter.parse_lines(log.read_bytes()):
        assert address == ADDRESS.encode()
        assert counter.front_answer(status, answered_by, asked) == counter.FrontAnswer("hot", wanted=True)


def test_nginx_compresses_none_of_them(front: FrontConfig) -> None:
    compressed = render_templates(front)["nginx.conf"].partition("gzip_types")[2].partition(";")[0].split()
    assert not set(DIRECT_ENDINGS) & set(compressed)
