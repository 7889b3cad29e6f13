"""Bodies: the size that each client may send, decided before any of it is taken."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
import requests

from project.nginx_config import UPLOADS_PER_ADDRESS
from resources import problems

from .conftest import RunningFront
from .origin import Answer

SPEEDS = "/api/layers/jams/speeds"
UPLOADS = ["/admin/resources/layer/add/", "/admin/resources/layer/7/change/", "/admin/feeds/feed/import/"]
SESSION = "csrftoken=a; sessionid=kp4v2n"


def head(method: str, target: str, length: int, **headers: str) -> bytes:
    fields = {"Host": "localhost", "Content-Length": str(length), **headers}
    return "\r\n".join([f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]).encode()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("authorization", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}])
def test_a_change_without_a_token_is_refused_before_its_body(
    site: RunningFront, method: str, authorization: dict[str, str]
) -> None:
    answer = site.get(SPEEDS, method=method, Content_Length="90000", **authorization)
    assert answer.status == 401
    assert site.main.asked == []
    assert answer.headers["WWW-Authenticate"] == problems.CHALLENGE
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert json.loads(answer.body) == json.loads(problems.Problem(401, problems.NO_TOKEN).response().content)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_reading_needs_no_token(site: RunningFront, method: str) -> None:
    site.get("/api/layers", method=method)
    assert [asked.method for asked in site.main.asked] == [method]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_change_with_a_token_is_for_main_to_judge(site: RunningFront, scheme: str) -> None:
    site.main.answer = lambda _: Answer(401, {"WWW-Authenticate": "main"}, b"")
    assert (
        site.get(SPEEDS, method="POST", Authorization=f"{scheme} a", Content_Length="0").headers["WWW-Authenticate"]
        == "main"
    )


def test_the_sign_in_form_is_small(site: RunningFront) -> None:
    answer = site.get("/admin/login/", method="POST", Content_Length="70000", Cookie=SESSION)
    assert (answer.status, answer.body) == (413, b"The form is larger than this site accepts.\n")
    assert site.main.asked == []


@pytest.mark.parametrize("target", UPLOADS)
@pytest.mark.parametrize("cookie", ["csrftoken=a", "sessionid=", "", "sessionid2=a"])
def test_a_file_of_a_stranger_is_refused_before_its_body(site: RunningFront, target: str, cookie: str) -> None:
    answer = site.get(target, method="POST", Content_Length="100000", Cookie=cookie)
    assert (answer.status, answer.headers["Cache-Control"]) == (403, "no-store")
    assert b"Sign in" in answer.body
    assert site.get(target, method="POST", Transfer_Encoding="chunked", Cookie=cookie).status == 403
    assert site.main.asked == []


@pytest.mark.parametrize("target", UPLOADS)
def test_who_has_a_session_sends_files_and_who_has_none_sees_the_forms(site: RunningFront, target: str) -> None:
    sent = requests.post(
        f"http://localhost:{site.port}{target}", data=b"x" * 100_000, headers={"Cookie": SESSION}, timeout=10
    )
    assert (sent.status_code, site.get(target).status) == (200, 200)
    assert [asked.method for asked in site.main.asked] == ["POST", "GET"]


@pytest.mark.parametrize("target", ["/admin/x/", "/admin/", "/admin/resources/layer/7/delete/", "/admin/feeds/feed/"])
def test_other_pages_of_the_admin_take_forms_and_no_files(start: Callable[..., RunningFront], target: str) -> None:
    site = start(upload_max_bytes=1_000_000)
    refused = site.get(target, method="POST", Content_Length="131073", Cookie=SESSION)
    assert (refused.status, site.main.asked) == (413, [])
    assert refused.body == b"The form is larger than this site accepts.\n"
    form = requests.post(
        f"http://localhost:{site.port}{target}", data=b"x" * 131_072, headers={"Cookie": SESSION}, timeout=10
    )
    assert form.status_code == 200


@contextmanager
def sending(site: RunningFront, target: str, *senders: dict[str, str]) -> Iterator[None]:
    """So many large bodies are on their way, without a byte so far."""
    with ExitStack() as open_ones:
        for fields in senders:
            connection = open_ones.enter_context(closing(socket.create_connection(("127.0.0.1", site.port))))
            connection.sendall(head("POST", target, 100_000, **fields))
        yield


@pytest.mark.parametrize("target", [SPEEDS, *UPLOADS])
def test_one_address_sends_few_large_bodies_at_a_time(site: RunningFront, target: str) -> None:
    fields = {"Authorization": "Bearer a", "Cookie": SESSION}
    with sending(site, target, *[fields] * UPLOADS_PER_ADDRESS):
        refused = site.get(target, method="POST", Content_Length="100000", **fields)
        assert refused.status == 429
        assert refused.headers["Retry-After"] == "5"
        assert json.loads(refused.body)["status"] == 429
        assert site.get(target, **fields).status == 200  # small bodies go on


@pytest.mark.parametrize(
    ("senders", "one_more", "another"),
    [
        ("2001:db8:1:2::{}", "2001:db8:1:2:ffff:a00:{}:1", "2001:db8:1:3::1"),
        ("2001:db8::{}", "2001:db8:0:0:1:2:3:{}", "2001:db8:0:1::1"),  # written shorter, which hides where a half ends
        ("2001:db8:a0a:a0a:{}::", "2001:db8:a0a:a0a::{}", "2001:db8:a0a:a0b::1"),  # bytes that end lines
    ],
)
def test_the_addresses_of_a_network_are_one_client(
    start: Callable[..., RunningFront], senders: str, one_more: str, another: str
) -> None:
    site = start(trusted_proxies=("127.0.0.1",))
    of_each = [
        {"Authorization": "Bearer a", "X-Forwarded-For": senders.format(number + 1)}
        for number in range(UPLOADS_PER_ADDRESS)
    ]
    with sending(site, SPEEDS, *of_each):
        assert status_of_another(site, one_more.format(9)) == 429
        assert status_of_another(site, another) == 200


@pytest.mark.parametrize("senders", ["192.0.2.{}", "::ffff:192.0.2.{}"])
def test_ipv4_addresses_are_clients_each(start: Callable[..., RunningFront], senders: str) -> None:
    site = start(trusted_proxies=("127.0.0.1",))
    of_each = [
        {"Authorization": "Bearer a", "X-Forwarded-For": senders.format(number + 1)}
        for number in range(UPLOADS_PER_ADDRESS)
    ]
    with sending(site, SPEEDS, *of_each):
        assert status_of_another(site, senders.format(9)) == 200


def status_of_another(site: RunningFront, address: str) -> int:
    """The answer to a large body of that address."""
    headers = {"Authorization": "Bearer a", "X-Forwarded-For": address}
    url = f"http://localhost:{site.port}{SPEEDS}"
    return requests.post(url, data=b"x" * 100_000, headers=headers, timeout=10).status_code
