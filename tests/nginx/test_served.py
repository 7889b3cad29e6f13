"""Mirrored files that nginx serves straight from the storage: with all that main says of them, and only plainly."""

import os
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from project import nginx_config
from project.nginx_config import FrontConfig, render_templates
from resources.mirror.public_files import BY_DIGEST, DIRECT_ENDINGS, delivery_fields
from resources.traffic import counter

from ..support.stack import eventually
from .conftest import RunningFront, Start
from .origin import Answer

BODY = bytes(range(256)) * 40
STORED = datetime(2026, 11, 21, 22, 30, tzinfo=UTC)
DATE = "Sat, 21 Nov 2026 22:30:00 GMT"
HOT_SECONDS = 4
"""As few as can be kept: links are believed for a second."""


@pytest.fixture
def digest(request: pytest.FixtureRequest) -> str:
    """Each test has a file of its own: nginx remembers those of the others for a second."""
    return sha256(request.node.name.encode()).hexdigest()


@pytest.fixture
def address(digest: str) -> str:
    return f"/resources/{digest}"


@pytest.fixture
def site(start: Start) -> RunningFront:
    log, served = Path("logs/traffic.log"), Path("blobs/served")
    running = start(served=served, hot_seconds=HOT_SECONDS, traffic_log=log, counted=("/resources/",))
    running.main.answer = lambda _: Answer(404, {"Cache-Control": "no-store"})
    return running


def link(site: RunningFront, digest: str, media_type: str) -> Path:
    """Links the file as main does when it answers a request for it."""
    path = site.front.data.blobs / "served" / digest[:2] / f"{digest}.{DIRECT_ENDINGS[media_type]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(BODY)
    os.utime(path, (STORED.timestamp(), STORED.timestamp()))
    return path


@pytest.fixture
def image(site: RunningFront, digest: str) -> Path:
    return link(site, digest, "image/jpeg")


@pytest.mark.parametrize("media_type", DIRECT_ENDINGS)
def test_all_fields_are_those_that_main_gives(site: RunningFront, digest: str, address: str, media_type: str) -> None:
    link(site, digest, media_type)
    reply = site.get(address)
    assert (reply.status, reply.body) == (200, BODY)
    said = {
        **delivery_fields(media_type, digest, STORED, BY_DIGEST, HOT_SECONDS),
        "Cache-Status": nginx_config.FILE_CACHE_STATUS,
    }
    of_the_server = {"Server", "Date", "Connection", "Content-Length", "Server-Timing"}
    got = {name: ", ".join(reply.headers.get_all(name, [])) for name in reply.headers if name not in of_the_server}
    assert got == said
    assert site.main.asked == []


@pytest.mark.usefixtures("image")
def test_parts_and_heads(site: RunningFront, address: str, digest: str) -> None:
    part = site.get(f"{address}?x=1", Range="bytes=100-199")
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, BODY[100:200], f"bytes 100-199/{len(BODY)}")
    assert part.headers["ETag"] == f'"{digest}"'
    assert site.get(address, Range=f"bytes={len(BODY)}-").status == 416
    head = site.get(address, method="HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(BODY)))
    assert site.main.asked == []


PART = {"Range": "bytes=100-199"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *(({**PART, "If_Range": '"{}"'}, 206), ({**PART, "If_Range": DATE}, 206), ({**PART, "If_Range": '"x"'}, 200)),
        *(({"If_Modified_Since": DATE}, 304), ({"If_Modified_Since": "Fri, 21 Nov 2025 22:30:00 GMT"}, 200)),
    ],
)
@pytest.mark.usefixtures("image")
def test_a_client_gets_the_part_that_it_lacks(
    site: RunningFront, address: str, digest: str, headers: dict[str, str], status: int
) -> None:
    reply = site.get(address, **{name: value.format(digest) for name, value in headers.items()})
    assert (reply.status, reply.headers["ETag"]) == (status, f'"{digest}"')


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {"Content_Length": "0"}),
        ("OPTIONS", {}),
        ("GET", {"If_None_Match": '"{}"'}),
        ("GET", {"If_Match": '"{}"'}),
        ("GET", {"If_Unmodified_Since": DATE}),
    ],
)
@pytest.mark.usefixtures("image")
def test_what_must_be_judged_goes_to_main(
    site: RunningFront, address: str, digest: str, method: str, headers: dict[str, str]
) -> None:
    fields = {name: value.format(digest) for name, value in headers.items()}
    assert site.get(address, method=method, **fields).status == 404
    assert [(asked.method, asked.target) for asked in site.main.asked] == [(method, address)]


def test_what_has_no_link_goes_to_main_and_is_kept_as_ever(site: RunningFront, address: str) -> None:
    site.main.answer = lambda _: Answer(hang_up=True)
    assert site.get(address).status == 503
    site.main.asked.clear()
    said = {"Cache-Control": "public, s-maxage=60", "ETag": '"a"', "Accept-Ranges": "bytes"}
    site.main.answer = lambda _: Answer(headers=said, body=BODY)
    first, again = site.get(f"{address}?x=1"), site.get(address, Range="bytes=0-9")
    assert (first.body, again.body, again.cached) == (BODY, BODY[:10], True)
    assert [asked.target for asked in site.main.asked] == [address]


@pytest.mark.parametrize(
    "other",
    [
        *("/served/{shelf}/{digest}.jpeg", "/{shelf}/{digest}.jpeg", "/resources/{digest}.jpeg"),
        *("/resources/{shelf}/{digest}.jpeg", "/resources/{digest}/", "/RESOURCES/{upper}"),
    ],
)
@pytest.mark.usefixtures("image")
def test_there_is_one_address_for_it(site: RunningFront, digest: str, other: str) -> None:
    assert site.get(other.format(shelf=digest[:2], digest=digest, upper=digest.upper())).status == 404


def test_what_is_found_and_cannot_be_read_goes_to_main_by_its_address(
    site: RunningFront, address: str, image: Path
) -> None:
    image.unlink()
    os.mkfifo(image)  # as good as a file that is removed between two looks
    assert site.get(f"{address}?x=1").status == 404
    assert [asked.target for asked in site.main.asked] == [address]


def test_a_link_is_found_and_missed_as_soon_as_links_are_looked_at_again(
    site: RunningFront, address: str, digest: str
) -> None:
    assert site.get(address).status == 404
    file = link(site, digest, "application/octet-stream")
    eventually(lambda: site.get(address).status == 200, HOT_SECONDS, "it is served")
    file.unlink()
    eventually(lambda: site.get(address).status == 404, HOT_SECONDS, "it is gone")


@pytest.mark.usefixtures("image")
def test_it_counts_as_answered_by_nginx_itself(site: RunningFront, address: str) -> None:
    for method in ("GET", "HEAD"):
        site.get(address, method=method)
    site.flush_logs()
    log = site.front.data.traffic
    eventually(lambda: log.read_text().count(address) >= 2, 5, "two lines")
    lines = [line for line in counter.parse_lines(log.read_bytes()) if line[-1] == address.encode()]
    for _, status, answered_by, asked, *_ in lines:
        assert counter.front_answer(status, answered_by, asked) == counter.FrontAnswer("hot", wanted=True)


def test_nginx_compresses_none_of_them(front: FrontConfig) -> None:
    compressed = render_templates(front)["nginx.conf"].partition("gzip_types")[2].partition(";")[0].split()
    assert not set(DIRECT_ENDINGS) & set(compressed)
