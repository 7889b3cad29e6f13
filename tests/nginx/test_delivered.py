"""Mirrored files that main looks up and nginx delivers: from this machine, and from a bucket."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import pytest

from project.nginx_config import FrontBucket
from retry.headers import LONG_AGO

from ..support.server import Handler, serving
from .conftest import RunningFront, Start
from .origin import Answer, Asked

BODY = bytes(range(256)) * 40
DIGEST = sha256(BODY).hexdigest()
ETAG = f'"{DIGEST}"'
DATE, OLDER_DATE = "Sat, 21 Nov 2026 22:30:00 GMT", "Fri, 21 Nov 2025 22:30:00 GMT"
ADDRESS = f"/resources/{DIGEST}"
SAID = {
    "Content-Type": "image/png",
    "Content-Disposition": "inline",
    "ETag": ETAG,
    "Last-Modified": LONG_AGO,
    "X-Delivered-Last-Modified": DATE,
    "X-Delivered-Cache-Control": "public, max-age=31536000, s-maxage=2, immutable",
    "Content-Security-Policy": "sandbox",
    "Content-Location": ADDRESS,
    "Cache-Status": "Tarry; hit; detail=stored",
    "Access-Control-Allow-Origin": "*",
}

SHELF = f"/delivered/here/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST}"
"""The address at which nginx delivers the file from this machine."""


@dataclass(slots=True)
class Bucket:
    """A bucket's answers, with fields that must not come through."""

    link: str = ""
    status: int = 200
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def answer(self, handler: Handler) -> None:
        self.asked.append((handler.command, handler.path, dict(handler.headers.items())))
        wanted = handler.headers.get("Range")
        fields = {"Content_Range": f"bytes 100-199/{len(BODY)}"} if wanted else {}
        handler.answer(
            206 if wanted and self.status == 200 else self.status,
            BODY[100:200] if wanted else BODY,
            Content_Type="text/html",
            ETag='"md5"',
            x_amz_request_id="secret",
            Set_Cookie="a=b",
            X_Accel_Redirect="/healthz",
            Cache_Control="public, max-age=9",
            **fields,
        )


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    bucket = Bucket()

    class Answering(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            bucket.answer(self)

    with serving(Answering) as url:
        bucket.link = f"{url}/bucket/mirror/ab?X-Amz-Signature=a%2Fb&x=1"
        yield bucket


@pytest.fixture(params=["here", "bucket"])
def site(request: pytest.FixtureRequest, start: Start, bucket: Bucket) -> RunningFront:
    """A front whose main hands a file over, from one place or the other."""
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    running = start(shelves=Path("blobs/mirror"), bucket=FrontBucket((), certificates))
    file = running.front.data.blobs / "mirror" / SHELF.removeprefix("/delivered/here/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(BODY)
    handed = {"X-Accel-Redirect": SHELF}
    if request.param == "bucket":
        handed = {"X-Accel-Redirect": f"/delivered/bucket/{DIGEST}", "X-Bucket-Link": bucket.link}
    running.main.answer = lambda _: Answer(headers={**SAID, **handed}, body=b"")
    return running


def test_a_file_comes_with_what_main_said_of_it_and_nothing_else(site: RunningFront) -> None:
    reply = site.get(ADDRESS)
    assert (reply.status, reply.body) == (200, BODY)
    got = {name.lower(): reply.headers.get_all(name) for name in reply.headers}
    renamed = {name.removeprefix("X-Delivered-"): value for name, value in SAID.items()}
    for name, value in renamed.items():
        assert got[name.lower()] == [value], name
    assert got["x-content-type-options"] == ["nosniff"]
    assert not {name for name in got if name.startswith("x-delivered")}
    assert not {"x-accel-redirect", "x-bucket-link", "x-amz-request-id", "set-cookie", "expires"} & got.keys()


PART = {"Range": "bytes=100-199"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *((PART, 206), ({**PART, "If_Range": ETAG}, 206), ({**PART, "If_Range": '"another"'}, 200)),
        *(({"If_None_Match": known}, 304) for known in (ETAG, f"W/{ETAG}", f'"x", {ETAG}', "*")),
        *(({"If_None_Match": tag, "If_Modified_Since": DATE}, status) for tag, status in ((ETAG, 304), ('"x"', 200))),
        *(({"If_None_Match": tag}, 200) for tag in ('"x"', f'"x{ETAG[1:]}')),
        ({"If_None_Match": ETAG, "If_Modified_Since": OLDER_DATE}, 304),
        ({"If_Match": ETAG}, 200),
        ({**PART, "If_Match": ETAG}, 206),
        ({**PART, "If_Match": ETAG, "If_Range": ETAG}, 206),
        ({**PART, "If_Match": ETAG, "If_Range": '"another"'}, 200),
        ({**PART, "If_Match": ETAG, "If_Unmodified_Since": OLDER_DATE}, 206),
        ({**PART, "If_Unmodified_Since": DATE}, 206),
    ],
)
def test_a_client_gets_the_part_that_it_lacks(site: RunningFront, headers: dict[str, str], status: int) -> None:
    reply = site.get(ADDRESS, **headers)
    assert (reply.status, reply.body) == (status, {200: BODY, 206: BODY[100:200], 304: b""}[status])
    assert reply.headers["Content-Range"] == (f"bytes 100-199/{len(BODY)}" if status == 206 else None)
    assert reply.headers["Cache-Control"] == SAID["X-Delivered-Cache-Control"]
    assert reply.headers["ETag"] == ETAG
    assert status == 304 or reply.headers["Content-Security-Policy"] == "sandbox"


def test_it_is_not_kept_and_a_head_has_no_body(site: RunningFront) -> None:
    assert not site.get(ADDRESS).cached
    head = site.get(ADDRESS, method="HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(BODY)))
    assert (head.cached, len(site.main.asked)) == (False, 2)


@pytest.mark.parametrize("site", ["here"], indirect=True)
@pytest.mark.parametrize(
    "address",
    [
        *("/delivered/", "/delivered/x", "/delivered/here/", "/delivered/bucket/x"),
        *(SHELF, SHELF.replace("here", "%68ere"), f"/x/../{SHELF}"),
    ],
)
def test_no_client_can_ask_for_it(site: RunningFront, address: str) -> None:
    reply = site.get(address, X_Bucket_Link="http://127.0.0.1:1/")
    assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json")
    assert site.main.asked == []


def test_what_main_has_judged_is_not_judged_again(site: RunningFront) -> None:
    head = site.get(ADDRESS, method="HEAD", If_Match=ETAG)
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(BODY)))
    assert head.headers.get_all("Last-Modified") == [DATE]
    assert site.main.asked[-1].headers["if-match"] == ETAG


@pytest.mark.parametrize("site", ["here"], indirect=True)
def test_past_the_end_of_what_main_has_judged_there_is_nothing(site: RunningFront) -> None:
    reply = site.get(ADDRESS, If_Match=ETAG, Range=f"bytes={len(BODY)}-")
    assert (reply.status, reply.headers["Content-Range"]) == (416, f"bytes */{len(BODY)}")
    assert reply.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("headers", [{}, {"If_Match": ETAG}])
@pytest.mark.parametrize("site", ["here"], indirect=True)
def test_a_file_that_has_gone_just_now_is_not_found(site: RunningFront, headers: dict[str, str]) -> None:
    site.main.answer = lambda _: Answer(headers={**SAID, "X-Accel-Redirect": f"{SHELF}-gone"}, body=b"")
    assert site.get(ADDRESS, **headers).status == 404


@pytest.mark.parametrize("site", ["bucket"], indirect=True)
def test_the_bucket_is_asked_by_the_link_alone(site: RunningFront, bucket: Bucket) -> None:
    site.get(ADDRESS, method="HEAD", Authorization="Bearer x", Cookie="a=b", If_None_Match='"x"')
    [(method, path, headers)] = bucket.asked
    assert (method, path) == ("GET", "/bucket/mirror/ab?X-Amz-Signature=a%2Fb&x=1")
    assert headers.keys() <= {"Host", "Connection"}
    assert headers["Host"] in bucket.link


@pytest.mark.parametrize("site", ["bucket"], indirect=True)
@pytest.mark.parametrize(("status", "told"), [(500, 503), (403, 503), (302, 503), (404, 404)])
def test_what_the_bucket_refuses_is_not_shown(site: RunningFront, bucket: Bucket, status: int, told: int) -> None:
    bucket.status = status
    reply = site.get(ADDRESS)
    assert (reply.status, reply.headers["Content-Type"]) == (told, "application/problem+json")
    assert reply.headers["Cache-Control"] == "no-store"


def test_what_is_kept_is_asked_for_by_its_etag_and_not_sent_again(start: Start) -> None:
    site, told = start(), {**SAID, "Cache-Control": "public, max-age=9, s-maxage=1", "Accept-Ranges": "bytes"}

    def answer(asked: Asked) -> Answer:
        is_known = asked.headers.get("if-none-match") == ETAG
        return Answer(304, told, b"") if is_known else Answer(200, told, BODY)

    site.main.answer = answer
    replies = [site.get(ADDRESS)]
    while len(site.main.asked) < 3:
        time.sleep(0.1)
        replies.append(site.get(f"{ADDRESS}?x={len(replies)}", Range="bytes=0-9" if len(replies) % 2 else "bytes=5-"))
    assert [asked.headers.get("if-none-match") for asked in site.main.asked] == [None, ETAG, ETAG]
    assert {reply.body for reply in replies} == {BODY, BODY[:10], BODY[5:]}


@pytest.mark.parametrize("site", ["here"], indirect=True)
def test_under_the_waiting_address_no_cache_keeps_it(site: RunningFront) -> None:
    site.retry.answer = lambda _: Answer(headers={"X-Accel-Redirect": f"/retry_after/returned{ADDRESS}"}, body=b"")
    reply = site.get("/retry_after?redirect=x")
    assert (reply.status, reply.body) == (200, BODY)
    assert reply.headers.get_all("Cache-Control") == ["no-store"]
