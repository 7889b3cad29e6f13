"""Conditional requests: If-None-Match alone decides where it is sent, and a 304 has the fields of its 200."""

import pytest

from retry.headers import COMPRESSED_MIN_BYTES, LONG_AGO

from .conftest import Reply, RunningFront, Start
from .origin import HOT, Answer, Asked

BODY = b"text " * COMPRESSED_MIN_BYTES
ETAG, OTHER = '"0123456789abcdef"', '"other"'
DATE, OLDER = "Sat, 21 Nov 2026 22:30:00 GMT", "Fri, 21 Nov 2025 22:30:00 GMT"
SAID = {
    **HOT,
    "Content-Type": "text/plain; charset=utf-8",
    "ETag": ETAG,
    "Last-Modified": LONG_AGO,
    "X-Delivered-Last-Modified": DATE,
    "X-Delivered-Vary": "Accept-Encoding",
}


def said_304(fields: dict[str, str]) -> Answer:
    """As Django answers: without the fields of the body."""
    return Answer(304, {name: value for name, value in fields.items() if name != "Content-Type"}, b"")


@pytest.fixture
def site(start: Start) -> RunningFront:
    """A front with an answer of main in its hot cache; main itself answers by the date."""
    running = start()

    def answer(asked: Asked) -> Answer:
        return said_304(SAID) if asked.headers.get("if-modified-since") == DATE else Answer(headers=SAID, body=BODY)

    running.main.answer = answer
    running.get("/feeds/a")
    running.main.asked.clear()
    return running


@pytest.fixture
def static(start: Start) -> RunningFront:
    """A front with a static file."""
    running = start()
    file = running.front.data.static / "page.css"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(BODY)
    return running


BOTH = [(tag, date) for tag in (ETAG, f"W/{ETAG}", f"{OTHER}, {ETAG}", OTHER) for date in (DATE, OLDER, "0", "")]


@pytest.mark.parametrize(("tag", "date"), BOTH)
def test_the_tag_alone_decides_what_a_client_gets_from_the_hot_cache(site: RunningFront, tag: str, date: str) -> None:
    reply = site.get("/feeds/a", If_None_Match=tag, **({"If_Modified_Since": date} if date else {}))
    assert (reply.status, reply.cached, reply.headers["ETag"]) == (200 if tag == OTHER else 304, True, ETAG)
    assert reply.headers.get_all("Last-Modified") == [DATE]
    assert site.main.asked == []


@pytest.mark.parametrize(("date", "status"), [(DATE, 304), (OLDER, 200)])
def test_a_date_without_a_tag_is_judged_by_main(site: RunningFront, date: str, status: int) -> None:
    reply = site.get("/feeds/a", If_Modified_Since=date)
    assert (reply.status, reply.headers.get_all("Last-Modified")) == (status, [DATE])
    assert [asked.headers["if-modified-since"] for asked in site.main.asked] == [date]


@pytest.mark.parametrize("name", ["If_Match", "If_Unmodified_Since"])
def test_what_must_be_unchanged_is_judged_by_main_and_a_part_of_it_can_be_had(site: RunningFront, name: str) -> None:
    reply = site.get("/feeds/a", Range="bytes=5-9", **{name: ETAG})
    assert (reply.status, reply.body, reply.headers["ETag"]) == (206, BODY[5:10], ETAG)
    assert [asked.headers[name.lower().replace("_", "-")] for asked in site.main.asked] == [ETAG]


@pytest.mark.parametrize(
    ("coding", "is_compressed"),
    [
        *((coding, True) for coding in ("gzip", "gzip, deflate, br", "br, GZIP", "br,gzip;q=0.5", "gzip ; q=1.0")),
        *((coding, False) for coding in ("", "identity", "br", "gzip;q=0", "gzip;q=0.0", "x-gzipped")),
    ],
)
@pytest.mark.parametrize(
    "condition", [{"If_None_Match": ETAG, "If_Modified_Since": OLDER}, {"If_Modified_Since": DATE}], ids=["tag", "date"]
)
def test_a_304_has_the_etag_and_vary_of_the_200(
    site: RunningFront, coding: str, is_compressed: bool, condition: dict[str, str]
) -> None:
    encoding = {"Accept_Encoding": coding} if coding else {}
    whole, bare = site.get("/feeds/a", **encoding), site.get("/feeds/a", **encoding, **condition)
    head = site.get("/feeds/a", method="HEAD", **encoding)
    assert (whole.headers["Content-Encoding"] == "gzip", bare.status) == (is_compressed, 304)
    assert fields(whole) == fields(bare) == fields(head)
    assert fields(whole)["ETag"] == [f"W/{ETAG}" if is_compressed else ETAG]
    assert fields(whole)["Vary"] == ["Accept-Encoding"]


def fields(reply: Reply) -> dict[str, list[str]]:
    return {name: reply.headers.get_all(name, []) for name in ("ETag", "Vary", "Last-Modified", "Cache-Control")}


def test_what_nginx_does_not_compress_has_a_strong_tag_and_no_vary(site: RunningFront) -> None:
    image = {name: value for name, value in SAID.items() if name != "X-Delivered-Vary"} | {"Content-Type": "image/png"}
    site.main.answer = lambda _: Answer(headers=image, body=BODY)
    whole = site.get("/tiles/a.png", Accept_Encoding="gzip")
    bare = site.get("/tiles/a.png", Accept_Encoding="gzip", If_None_Match=ETAG)
    assert (whole.status, bare.status, fields(whole)) == (200, 304, fields(bare))
    assert (fields(whole)["ETag"], fields(whole)["Vary"]) == ([ETAG], [])


@pytest.mark.parametrize("coding", ["gzip", "identity"])
@pytest.mark.parametrize(("has_tag", "has_date"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_static_file_is_sent_by_its_tag_alone(
    static: RunningFront, coding: str, has_tag: bool, has_date: bool
) -> None:
    whole = static.get("/static/page.css", Accept_Encoding=coding)
    head = static.get("/static/page.css", Accept_Encoding=coding, method="HEAD")
    date = whole.headers["Last-Modified"] if has_date else OLDER
    tag = whole.headers["ETag"] if has_tag else OTHER
    reply = static.get("/static/page.css", Accept_Encoding=coding, If_None_Match=tag, If_Modified_Since=date)
    assert (whole.status, reply.status) == (200, 304 if has_tag else 200)
    assert fields(whole) == fields(reply) == fields(head)
    assert whole.headers["ETag"].startswith("W/") == (coding == "gzip")
    assert fields(whole)["Vary"] == ["Accept-Encoding"]


def test_a_static_file_is_sent_by_its_date_where_that_is_alone(static: RunningFront) -> None:
    date = static.get("/static/page.css").headers["Last-Modified"]
    assert static.get("/static/page.css", If_Modified_Since=date).status == 304
    assert static.get("/static/page.css", If_Modified_Since=OLDER).status == 200
    assert static.get("/static/none.css", If_Modified_Since=date, If_None_Match=ETAG).status == 404


@pytest.mark.parametrize("target", ["/shelves/a", "/tagged/static/page.css", "/delivered/judged/a"])
def test_the_ways_of_nginx_to_itself_are_closed_to_clients(static: RunningFront, target: str) -> None:
    static.main.answer = lambda _: Answer(404, {})
    for host in (None, "files.invalid"):
        assert static.get(target, host).status in {404, 421}


def test_no_field_that_only_nginx_reads_reaches_a_client(site: RunningFront) -> None:
    for condition in ({}, {"If_None_Match": ETAG}, {"If_Modified_Since": DATE}):
        assert not [name for name in site.get("/feeds/a", **condition).headers if name.startswith("X-Delivered")]
