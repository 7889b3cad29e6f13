"""Bodies: the size that each client may send, decided before any of it is taken."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
import requests
from django.contrib import admin
from django.test import Client

from project.nginx_config import BODIES_AT_A_TIME, UPLOADS_PER_ADDRESS
from resources import problems
from resources.disk.shares import LEAST_BYTES, UPLOADS_AT_A_TIME, DiskData, divide_disk

from ..unit.project.test_policy import pages_of, row
from .conftest import RunningFront, Start
from .origin import Answer

SPEEDS = "/api/layers/jams/speeds"
UPLOADS = ["/admin/resources/layer/add/", "/admin/resources/layer/7/change/", "/admin/feeds/feed/import/"]
SESSION = "csrftoken=a; sessionid=kp4v2n"


def post(site: RunningFront, target: str, size: int, **headers: str) -> int:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.post(
        f"http://localhost:{site.port}{target}", data=b"x" * size, headers=fields, timeout=10
    ).status_code


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
    answer = site.get(SPEEDS, method="POST", Authorization=f"{scheme} a", Content_Length="0")
    assert answer.headers["WWW-Authenticate"] == "main"


def test_the_sign_in_form_is_small(site: RunningFront) -> None:
    answer = site.get("/admin/login/", method="POST", Content_Length="70000", Cookie=SESSION)
    assert (answer.status, site.main.asked) == (413, [])
    assert b"The form is larger than this site accepts." in answer.body


@pytest.mark.parametrize("target", UPLOADS)
@pytest.mark.parametrize("cookie", ["csrftoken=a", "sessionid=", "", "sessionid2=a"])
def test_a_file_of_a_stranger_is_refused_before_its_body(site: RunningFront, target: str, cookie: str) -> None:
    answer = site.get(target, method="POST", Content_Length="100000", Cookie=cookie)
    assert (answer.status, answer.headers["Cache-Control"]) == (403, "no-store")
    assert b"Sign in" in answer.body
    assert site.get(target, method="POST", Transfer_Encoding="chunked", Cookie=cookie).status == 403
    assert site.main.asked == []


@pytest.mark.parametrize("target", UPLOADS)
def test_a_user_with_a_session_sends_files_and_one_without_sees_the_forms(site: RunningFront, target: str) -> None:
    assert (post(site, target, 100_000, Cookie=SESSION), site.get(target).status) == (200, 200)
    assert [asked.method for asked in site.main.asked] == ["POST", "GET"]


@pytest.mark.parametrize("target", ["/admin/x/", "/admin/", "/admin/resources/layer/7/delete/", "/admin/feeds/feed/"])
def test_other_pages_of_the_admin_take_forms_and_no_files(start: Start, target: str) -> None:
    site = start(upload_max_bytes=1_000_000)
    refused = site.get(target, method="POST", Content_Length="131073", Cookie=SESSION)
    assert (refused.status, site.main.asked) == (413, [])
    assert b"The form is larger than this site accepts." in refused.body
    assert post(site, target, 131_072, Cookie=SESSION) == 200


@contextmanager
def sending(site: RunningFront, target: str, *senders: dict[str, str]) -> Iterator[None]:
    """As many large bodies are on their way, without a byte so far."""
    with ExitStack() as open_ones:
        for sender in senders:
            connection = open_ones.enter_context(closing(socket.create_connection(("127.0.0.1", site.port))))
            fields = {"Host": "localhost", "Content-Length": "100000", **sender}
            lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
            connection.sendall("\r\n".join(lines).encode())
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


BOUNDED = divide_disk(LEAST_BYTES, DiskData())


@pytest.mark.parametrize(
    ("target", "status", "number"),
    [(SPEEDS, 429, UPLOADS_AT_A_TIME), (UPLOADS[0], 429, UPLOADS_AT_A_TIME), ("/feeds/", 503, BODIES_AT_A_TIME)],
)
def test_all_addresses_together_send_few_bodies_where_the_disk_is_bounded(
    start: Start, target: str, status: int, number: int
) -> None:
    site = start(trusted_proxies=("127.0.0.1",), disk=BOUNDED)
    fields = {"Authorization": "Bearer a", "Cookie": SESSION, "Content-Length": "100000" if status == 429 else "10000"}
    senders = [{**fields, "X-Forwarded-For": f"192.0.{place}.1"} for place in range(number + 1)]
    with sending(site, target, *senders[:-1]):
        last = {name.replace("-", "_"): value for name, value in senders[-1].items()}
        refused = site.get(target, method="POST", **last)
        assert (refused.status, "Retry-After" in refused.headers) == (status, True)
        assert site.get(target, Authorization="Bearer a", Content_Length="0").status == 200


@pytest.mark.parametrize(
    ("senders", "statuses"),
    [
        ("2001:db8:1:2::{}", {"2001:db8:1:2:ffff:a00:9:1": 429, "2001:db8:1:103::1": 200}),
        pytest.param(
            "2001:db8::{}", {"2001:db8:0:0:1:2:3:9": 429, "2001:db8:0:100::1": 200}, id="zeros beside the network"
        ),
        pytest.param(
            "2001:db8:a0a:a0a:{}::", {"2001:db8:a0a:a0a::9": 429, "2001:db8:a0a:b0a::1": 200}, id="bytes that end lines"
        ),
        ("192.0.2.{}", {"192.0.2.9": 200}),
        ("::ffff:192.0.2.{}", {"::ffff:192.0.2.9": 200}),
    ],
)
def test_the_addresses_of_a_network_are_one_client(start: Start, senders: str, statuses: dict[str, int]) -> None:
    site = start(trusted_proxies=("127.0.0.1",))
    addresses = [senders.format(number + 1) for number in range(UPLOADS_PER_ADDRESS)]
    with sending(site, SPEEDS, *({"Authorization": "Bearer a", "X-Forwarded-For": each} for each in addresses)):
        for address, status in statuses.items():
            assert post(site, SPEEDS, 100_000, Authorization="Bearer a", X_Forwarded_For=address) == status


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_pages_where_a_file_is_chosen_take_large_bodies_and_no_others(start: Start, admin_client: Client) -> None:
    site = start(upload_max_bytes=1_000_000)
    models = [model for model in admin.site._registry if model._meta.managed]
    for model in models:
        if not model._base_manager.exists():
            row(model)
    pages = [address for model in models for address in pages_of(model)]
    with_files = {address for address in pages if b"multipart/form-data" in admin_client.get(address).content}
    taken = {address for address in pages if site.get(address, method="POST", Content_Length="200000").status == 403}
    assert with_files == taken
    assert len(taken) == 3
