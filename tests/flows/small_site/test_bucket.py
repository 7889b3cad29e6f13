"""Mirrored files in a bucket: uploaded after they were fetched, passed on by nginx, waited for from other machines."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Thread

import pytest
import requests

from tests.support import file_server
from tests.support.crowd import Crowd
from tests.support.file_server import FileServer
from tests.support.moto_bucket import MotoBucket
from tests.support.stack import Stack, eventually

from .conftest import ORIGIN_ADDRESS

pytestmark = pytest.mark.no_database

BODY = os.urandom(200_000)
DIGEST = sha256(BODY).hexdigest()
NAME = f"mirror/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST}"
ADDRESS = f"/resources/{DIGEST}"

OTHER_MACHINE = """
import time
from django.conf import settings
from resources import locks
from resources.mirror.models import Blob
from resources.mirror.storage.uploads import Uploader
from retry import stores
locks.hold_machine_name("other", "another installation")
settings.MACHINE, settings.MIRROR_HELD_DIRECTORY = "other", {held!r}
Blob.objects.update(holder="other", uploaded_at=None)
while not stores.fast_client("state").exists("mirror:upload:other"):
    time.sleep(0.05)
uploader = Uploader()
assert uploader.run_once(0) == 1
uploader.run_once(0)
"""

ANSWER = """
from django.conf import settings
from django.test import Client
settings.MIRROR_DELIVERY = "redirect"
answer = Client().get({address!r}, headers={{"Host": {host!r}, "X-Front": "1"}})
print(answer.status_code, answer["Location"])
"""


@pytest.fixture(scope="module")
def origin() -> Iterator[FileServer]:
    with file_server.running(ORIGIN_ADDRESS) as server:
        server.files = {"/a": BODY}
        yield server


@pytest.fixture(scope="module")
def uploaded(stack: Stack, bucket: MotoBucket, origin: FileServer) -> Path:
    """A file was fetched, served from here, and uploaded; where it is still held."""
    [signed] = stack.manage("sign_url", f"{origin.url}/a").split()
    with Crowd(stack.base_url) as crowd:
        assert crowd.visit(signed).body == BODY
    eventually(lambda: NAME in bucket.names(), 20, "it is uploaded")
    return stack.data / "held" / DIGEST[:2] / DIGEST[2:4] / DIGEST


def test_nginx_passes_on_what_the_bucket_has(crowd: Crowd, bucket: MotoBucket, uploaded: Path) -> None:
    assert bucket.body(NAME) == BODY
    with only_there(uploaded):
        visit = crowd.visit(ADDRESS)
        assert (visit.statuses, visit.body) == ([200], BODY)
        headers = visit.answers[0].headers
        assert headers["ETag"] == f'"{DIGEST}"'
        assert headers["Content-Type"] == "application/octet-stream"
        assert len(headers.getall("Content-Security-Policy")) == 1
        assert {name for name in headers if name.lower().startswith("x-amz")} == set()
        part = crowd.visit(ADDRESS, headers={"Range": "bytes=-9"})
        assert (part.status, part.body) == (206, BODY[-9:])
        assert crowd.visit(ADDRESS, headers={"If-None-Match": f'"{DIGEST}"'}).status == 304
        assert crowd.visit(ADDRESS, method="HEAD").status == 200


def test_clients_are_sent_to_the_bucket_where_that_is_wanted(stack: Stack, bucket: MotoBucket, uploaded: Path) -> None:
    with only_there(uploaded):
        told = stack.manage("shell", "-c", ANSWER.format(address=ADDRESS, host=stack.host))
    status, link = told.split()[-2:]
    assert (status, link.startswith(f"http://{bucket.host}/{bucket.name}/site/{NAME}?")) == ("302", True)
    answer = requests.get(link, timeout=20)
    assert (answer.status_code, answer.content) == (200, BODY)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment")


@contextmanager
def only_there(uploaded: Path) -> Iterator[None]:
    """The files as after the time for which uploaded ones are held."""
    elsewhere = uploaded.rename(uploaded.with_name("elsewhere"))
    yield
    elsewhere.rename(uploaded)


def test_what_another_machine_holds_is_uploaded_while_the_client_waits(
    request: pytest.FixtureRequest, stack: Stack, crowd: Crowd, bucket: MotoBucket, uploaded: Path
) -> None:
    held = stack.directory / "other"
    (held / DIGEST[:2] / DIGEST[2:4]).mkdir(parents=True)
    shutil.move(uploaded, held / DIGEST[:2] / DIGEST[2:4])
    bucket.client.delete_object(Bucket=bucket.name, Key=f"site/{NAME}")
    other = Thread(target=stack.manage, args=("shell", "-c", OTHER_MACHINE.format(held=str(held))))
    other.start()
    request.addfinalizer(partial(other.join, 60))

    def is_waited_for() -> bool:
        visit = crowd.visit(ADDRESS)
        return visit.statuses == [302, 302, 200] and visit.body == BODY

    eventually(is_waited_for, 30, "the other machine uploads it")
    assert NAME in bucket.names()


def test_a_bucket_that_fails_is_tried_again_and_the_file_served_from_here_meanwhile(
    stack: Stack, crowd: Crowd, bucket: MotoBucket, origin: FileServer
) -> None:
    body = origin.files["/later"] = os.urandom(1000)
    digest = sha256(body).hexdigest()
    name = f"mirror/{digest[:2]}/{digest[2:4]}/{digest}"
    bucket.remove()
    [signed] = stack.manage("sign_url", f"{origin.url}/later").split()
    assert crowd.visit(signed).body == body
    log = stack.data / "logs" / "fetch.log"
    eventually(lambda: f'"digest": "{digest}"' in log.read_text(), 20, "its upload has failed")
    assert "could not be uploaded" in log.read_text()
    assert crowd.visit(f"/resources/{digest}").body == body

    bucket.make()
    eventually(lambda: name in bucket.names(), 30, "it is uploaded")
    assert bucket.body(name) == body
