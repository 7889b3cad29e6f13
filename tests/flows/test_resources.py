"""Mirrored files on the whole site: fetched once for all waiting clients, served by nginx, gone after a takedown."""

import io
import os
import time
from collections.abc import Iterator
from hashlib import sha256

import pytest
import requests
from PIL import Image

from ..support import file_server
from ..support.crowd import Answer, Crowd
from ..support.file_server import FileServer
from ..support.stack import Stack, eventually

HOT_SECONDS, MIRROR_KNOWN_SECONDS = 5, 2
BIG_BYTES = 20_000_000
"""Above MIRROR_HOT_BYTES: nginx reads it by itself."""
ADD_OLD_ROWS = """
from datetime import timedelta
from django.contrib.sessions.models import Session
from django.utils import timezone
from resources.fetch.models import FetchDomain
from resources.mirror.models import Batch, MirroredHost, Resource, Rule, Tally
at = timezone.now() - timedelta(days=500)
FetchDomain.objects.filter(pk=FetchDomain.objects.create(scope="old.example").pk).update(updated_at=at)
MirroredHost.objects.create(host="old.example", learnt_at=at)
Rule.objects.create(kind="parameter", host="old.example", name="p", proposed_at=at)
Resource.objects.create(url_digest="old", url="https://old.example/", state="failed", wanted_at=at, fetched_at=at)
Tally.objects.create(hour=at, step="new")
Batch.objects.create(sender="old", key="old", created_at=at, finished_at=at)
Session.objects.create(session_key="old", expire_date=at)
"""
CHECK_HOST = """
from resources.mirror.models import MirroredHost
MirroredHost.objects.update_or_create(host="127.0.0.2", defaults={"recheck": True})
"""
MAKE_DUE = """
from django.utils import timezone
from resources.mirror import lookup
from resources.mirror.models import Resource
rows = Resource.objects.filter(url={url!r})
rows.update(due_at=timezone.now())
lookup.forget_statuses(list(rows.values_list("pk", flat=True)))
"""
"""Passes the time until the URL may be requested again. Files of 127.0.0.2 are checked for new content."""


def picture() -> bytes:
    file = io.BytesIO()
    Image.effect_noise((64, 64), 80).save(file, "png")
    return file.getvalue()


@pytest.fixture(scope="module")
def origin() -> Iterator[FileServer]:
    with file_server.running() as server:
        server.files = {"/a.png": picture(), "/b.png": picture(), "/big": os.urandom(BIG_BYTES)}
        yield server


@pytest.fixture(scope="module")
def signed(stack: Stack, origin: FileServer) -> dict[str, str]:
    """Addresses by the origin's paths."""
    paths = [*origin.files, "/missing", "/late"]
    printed = stack.manage("sign_url", *(origin.url + path for path in paths)).split()
    return {path: address.removeprefix(stack.base_url) for path, address in zip(paths, printed, strict=True)}


def address_of(body: bytes) -> str:
    return f"/resources/{sha256(body).hexdigest()}"


def test_a_miss_is_two_redirects_and_one_fetch_for_all_who_wait(
    crowd: Crowd, origin: FileServer, signed: dict[str, str]
) -> None:
    body = origin.files["/a.png"]
    origin.gate.clear()
    sent = crowd.send([signed["/a.png"]] * 20)
    eventually(lambda: [len(visit.answers) for visit in crowd.visits] == [1] * 20, 10, "all of them wait")
    origin.gate.set()
    visits = sent.result(30)
    assert {visit.body for visit in visits} == {body}
    assert {tuple(visit.statuses) for visit in visits} == {(302, 302, 200)}
    assert origin.asked.count("/a.png") == 1
    headers = visits[0].answers[-1].headers
    assert (headers["Content-Type"], headers["ETag"]) == ("image/png", f'"{sha256(body).hexdigest()}"')
    assert crowd.visit(address_of(body)).body == body
    assert crowd.visit(signed["/a.png"]).statuses == [200]
    assert origin.asked.count("/a.png") == 1


@pytest.mark.parametrize("path", ["/a.png", "/big"])
def test_parts_validators_and_heads(crowd: Crowd, origin: FileServer, signed: dict[str, str], path: str) -> None:
    body = origin.files[path]
    assert crowd.visit(signed[path]).body == body
    for address in (address_of(body), signed[path]):
        parts = {"bytes=10-19": body[10:20], "bytes=-7": body[-7:]}
        for wanted, part in parts.items():
            visit = crowd.visit(address, headers={"Range": wanted})
            assert (visit.status, visit.body) == (206, part)
            assert visit.answers[-1].headers["Content-Range"].endswith(f"/{len(body)}")
        assert crowd.visit(address, headers={"Range": f"bytes={len(body)}-"}).status == 416
        etag = f'"{sha256(body).hexdigest()}"'
        assert crowd.visit(address, headers={"If-None-Match": etag}).status == 304
        resumed = crowd.visit(address, headers={"If-Match": etag, "Range": "bytes=10-19"})
        assert (resumed.status, resumed.body) == (206, body[10:20])
        date = resumed.answers[-1].headers["Last-Modified"]
        for condition, status in (({"If-Match": etag}, 200), ({"If-Match": '"x"'}, 412)):
            assert crowd.visit(address, headers=condition).status == status
        for moment, status in ((date, 206), ("Fri, 21 Nov 2025 22:30:00 GMT", 412)):
            unmodified = {"If-Unmodified-Since": moment, "Range": "bytes=10-19"}
            assert crowd.visit(address, headers=unmodified).status == status
        head = crowd.visit(address, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.answers[-1].headers["Content-Length"] == str(len(body))
        assert head.answers[-1].headers["Content-Security-Policy"].startswith("sandbox")


def test_by_digest_clients_keep_it_and_nginx_answers_the_next(
    crowd: Crowd, origin: FileServer, signed: dict[str, str]
) -> None:
    address = address_of(origin.files["/a.png"])
    crowd.visit(address)
    answer = crowd.visit(f"{address}?x=1").answers[-1]
    assert "nginx; hit" in answer.cache_status
    assert answer.headers.getall("Cache-Control")[0].endswith("immutable")


def served_straight(crowd: Crowd, address: str) -> Answer:
    """The answer of nginx by itself, as soon as it looks at the storage again."""
    found: list[Answer] = []

    def is_straight() -> bool:
        found.append(crowd.visit(address).answers[-1])
        return "detail=file" in found[-1].cache_status

    eventually(is_straight, HOT_SECONDS, "nginx serves the file by itself")
    return found[-1]


@pytest.mark.parametrize("path", ["/a.png", "/big"])
def test_straight_from_the_storage_a_file_comes_with_all_that_main_says(
    crowd: Crowd, origin: FileServer, signed: dict[str, str], path: str
) -> None:
    assert crowd.visit(signed[path]).status == 200
    address = address_of(origin.files[path])
    mains = crowd.visit(address, headers={"If-None-Match": '"other"'}).answers[-1]
    assert "Tarry; hit; detail=stored" in mains.cache_status
    straight = served_straight(crowd, address)
    of_the_way = {"Date", "Connection", "Cache-Status", "Server-Timing"}
    of_all_of_djangos = {"X-Frame-Options", "Cross-Origin-Opener-Policy"}  # the sandbox says more
    left_out = of_the_way | of_all_of_djangos
    mains_fields, fields = (
        {name: one.headers.getall(name) for name in one.headers if name not in left_out} for one in (mains, straight)
    )
    assert fields == mains_fields
    assert crowd.visit(address).body == origin.files[path]


def test_what_the_origin_does_not_have_is_not_found_and_asked_for_once(
    crowd: Crowd, origin: FileServer, signed: dict[str, str]
) -> None:
    assert crowd.visit(signed["/missing"]).statuses == [302, 302, 404]
    assert crowd.visit(f"{signed['/missing']}?again").statuses == [404]
    assert origin.asked.count("/missing") == 1


def test_what_failed_says_when_it_is_tried_again_and_then_is(
    stack: Stack, crowd: Crowd, origin: FileServer, signed: dict[str, str]
) -> None:
    failed = crowd.visit(signed["/late"]).answers[-1]
    assert failed.status == 404
    assert 86_390 < int(failed.headers["Retry-After"]) <= 86_401
    origin.files["/late"] = b"here by now"
    assert crowd.visit(f"{signed['/late']}?early").status == 404
    stack.manage("shell", "-c", MAKE_DUE.format(url=f"{origin.url}/late"))
    eventually(lambda: crowd.visit(signed["/late"]).body == b"here by now", 20, "it is tried again")
    assert origin.asked.count("/late") == 2


@pytest.mark.parametrize("size", [100, BIG_BYTES])
def test_new_content_of_a_url_is_served_where_that_is_checked_and_the_old_digest_stays(
    stack: Stack, crowd: Crowd, size: int
) -> None:
    first, second = os.urandom(size), os.urandom(size)
    with file_server.running("127.0.0.2") as origin:
        origin.files["/news"], origin.etags["/news"] = first, '"1"'
        url = f"{origin.url}/news"
        stack.manage("shell", "-c", CHECK_HOST)
        time.sleep(MIRROR_KNOWN_SECONDS + 1)  # each process of main looks again
        address = stack.manage("sign_url", url).strip().removeprefix(stack.base_url)
        fetched = crowd.visit(address)
        assert fetched.body == first
        for etag, body in (('"1"', first), ('"2"', second)):
            origin.files["/news"], origin.etags["/news"], asked = body, etag, len(origin.asked)
            stack.manage("shell", "-c", MAKE_DUE.format(url=url))

            def is_checked() -> bool:
                stale = crowd.visit(address)
                assert stale.statuses == [200]
                return len(origin.asked) > asked  # noqa: B023  called in this turn alone

            eventually(is_checked, 20, "a request has it checked")
            eventually(lambda: crowd.visit(address).body == body, 20, "its content is served")  # noqa: B023
        assert origin.known == [("/news", '"1"')] * 2
    for answer in (fetched.answers[-1], crowd.visit(address).answers[-1]):
        assert "immutable" not in answer.headers["Cache-Control"]
        assert "Last-Modified" not in answer.headers
    assert crowd.visit(address_of(first)).body == first


def test_forged_addresses_and_other_methods_are_refused(crowd: Crowd, signed: dict[str, str]) -> None:
    signature, encoded = signed["/a.png"].split("/")[2:]
    assert crowd.visit(f"/resources/{signature[::-1]}/{encoded}").status == 403
    assert crowd.visit(f"/resources/{signature}/{encoded}!").status == 400
    assert crowd.visit("/resources/" + "ab" * 32).status == 404
    assert crowd.visit(signed["/a.png"], method="DELETE").status == 405


def test_a_download_goes_on_when_main_is_killed_and_can_be_resumed(
    stack: Stack, origin: FileServer, signed: dict[str, str], crowd: Crowd
) -> None:
    body = origin.files["/big"]
    assert crowd.visit(signed["/big"]).status == 200
    served_straight(crowd, address_of(body))
    address = stack.base_url + address_of(body)
    with requests.get(address, stream=True, timeout=20) as answer:
        first = answer.raw.read(1000)
        stack.kill("main", children=True)
        assert first + answer.raw.read() == body
    left = {"Range": f"bytes={BIG_BYTES // 2}-", "If-Range": answer.headers["ETag"]}

    def resumed(address: str) -> bool:
        rest = requests.get(address, headers=left, timeout=20)
        assert rest.status_code in {206, 503}
        return rest.status_code == 206 and rest.content == body[BIG_BYTES // 2 :]

    assert resumed(address)
    eventually(lambda: resumed(stack.base_url + signed["/big"]), 20, "the rest of it from what main looks up")


def test_old_rows_are_removed_by_a_worker(stack: Stack) -> None:
    stack.manage("shell", "-c", ADD_OLD_ROWS)
    assert stack.manage("prune", "--dry-run").splitlines()[-1] == "7 old rows would go."
    stack.manage("shell", "-c", "from resources import old_rows; old_rows.continue_pruning()")
    eventually(lambda: stack.manage("prune", "--dry-run") == "0 old rows would go.\n", 20, "none of them is left")


def test_taken_down_it_is_gone_within_the_hot_window_and_not_fetched_again(
    stack: Stack, crowd: Crowd, origin: FileServer, signed: dict[str, str]
) -> None:
    body = origin.files["/b.png"]
    digest = sha256(body).hexdigest()
    for address in (signed["/b.png"], address_of(body)):
        assert crowd.visit(address).body == body
    served_straight(crowd, address_of(body))
    token = stack.manage("create_token", "lawyer", "--take-down").strip()
    url, headers = f"{stack.base_url}/api{address_of(body)}", {"Authorization": f"Bearer {token}"}
    assert requests.delete(url, headers=headers, timeout=20).status_code == 200
    assert requests.delete(url, headers=headers, timeout=20).status_code == 200

    def is_gone() -> bool:
        return {crowd.visit(address).status for address in (signed["/b.png"], address_of(body))} == {410}

    eventually(is_gone, HOT_SECONDS, "it is gone")
    assert origin.asked.count("/b.png") == 1
    assert not list((stack.data / "blobs").rglob(f"{digest}*"))
