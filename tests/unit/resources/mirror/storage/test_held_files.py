"""Files that another machine alone has: asked of it by a signed path, or an answer at once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any

import pytest

from resources import locks
from resources.mirror.errors import StorageError
from resources.mirror.models import Blob
from resources.mirror.storage import blobs, held_files
from tests.conftest import RedisServers
from tests.support import server
from tests.support.stack import free_port

from ..conftest import Keep, Reader

BODY = bytes(range(256)) * 1000
FRONT = {"X-Front": "asked"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def held_elsewhere(bucket_of_any_kind: None, keep: Keep) -> Blob:
    blob = keep(BODY, holder="there", uploaded_at=None)
    blobs.remove_local_blob(blob.digest)
    return blob


Answers = Callable[[server.Handler], None]


@contextmanager
def other_machine(answers: Answers) -> Iterator[list[str]]:
    """The machine `there`, with an address. Yields the paths that it is asked for."""
    asked: list[str] = []

    class Machine(server.Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            asked.append(self.path)
            answers(self)

    with server.serving(Machine) as url:
        locks.hold_machine_name("there", "its id", url.removeprefix("http://"))
        yield asked


def test_a_file_that_another_machine_holds_is_asked_of_it(client: Reader, held_elsewhere: Blob) -> None:
    with other_machine(lambda machine: machine.answer(200, BODY)) as asked:
        found = client.get(f"/resources/{held_elsewhere.digest}")
        assert (found.status_code, found.body) == (200, BODY)
        part = client.get(f"/resources/{held_elsewhere.digest}", headers={"Range": "bytes=100-70000"})
        assert (part.status_code, part.body) == (206, BODY[100:70001])
        assert client.head(f"/resources/{held_elsewhere.digest}")["Content-Length"] == str(len(BODY))
    assert len(asked) == 2
    _, held, digest, until, signature = asked[0].split("/")
    assert (held, digest) == ("held", held_elsewhere.digest)
    assert held_files.is_held_signed(digest, int(until), signature, held_files.find_holder("here").now)


def test_large_files_of_another_machine_are_not_kept_hot(client: Reader, held_elsewhere: Blob, settings: Any) -> None:
    with other_machine(lambda machine: machine.answer(200, BODY)):
        assert "X-Delivered-Large" not in client.get(f"/resources/{held_elsewhere.digest}", headers=FRONT)
        settings.MIRROR_HOT_BYTES = 1000
        found = client.get(f"/resources/{held_elsewhere.digest}", headers=FRONT)
        assert (found["X-Delivered-Large"], found.body) == ("1", BODY)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (lambda machine: machine.answer(404, b""), "answers 404"),
        (lambda machine: machine.answer(200, BODY[:-1]), "answers 200, 255999 bytes"),
        (lambda machine: machine.answer(200, BODY[:-1] + b"x"), "gave other bytes"),
        (lambda machine: machine.wfile.write(b"SSH-2.0\r\n"), "does not answer"),
    ],
)
def test_another_answer_than_the_file_is_an_error(held_elsewhere: Blob, answers: Answers, reason: str) -> None:
    with other_machine(answers), pytest.raises(StorageError, match=reason):
        list(held_files.read_held(held_files.find_holder("there"), held_elsewhere.digest, len(BODY)))


def test_a_machine_that_gives_its_file_too_slowly_is_left(held_elsewhere: Blob, settings: Any) -> None:
    settings.MIRROR_TRANSFER_SECONDS = 0
    with other_machine(lambda machine: machine.answer(200, BODY)), pytest.raises(StorageError, match="too slowly"):
        list(held_files.read_held(held_files.find_holder("there"), held_elsewhere.digest, len(BODY)))


def test_a_process_has_a_few_transfers_at_a_time(held_elsewhere: Blob) -> None:
    with other_machine(lambda machine: machine.answer(200, BODY)):
        machine = held_files.find_holder("there")
        under_way = [
            held_files.read_held(machine, held_elsewhere.digest, len(BODY)) for _ in range(held_files.MOST_TRANSFERS)
        ]
        assert all(next(one) for one in under_way)
        with pytest.raises(StorageError, match="under way"):
            next(held_files.read_held(machine, held_elsewhere.digest, len(BODY)))
        under_way[0].close()
        assert b"".join(held_files.read_held(machine, held_elsewhere.digest, len(BODY))) == BODY
        for one in under_way:
            one.close()


def test_while_its_machine_does_not_answer_clients_wait_for_the_upload(client: Reader, held_elsewhere: Blob) -> None:
    locks.hold_machine_name("there", "its id", f"127.0.0.1:{free_port()}")
    assert client.get(f"/resources/{held_elsewhere.digest}").status_code == 302


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_cannot_be_had_now_is_told_at_once(client: Reader, held_elsewhere: Blob, is_there: bool) -> None:
    if is_there:
        locks.hold_machine_name("there", "its id")
        held_files.note_uploads("there", works=False)
    answer = client.get(f"/resources/{held_elsewhere.digest}")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10" if is_there else "30")
    if is_there:
        held_files.note_uploads("there", works=True)
        assert client.get(f"/resources/{held_elsewhere.digest}").status_code == 302


def test_this_machine_gives_its_files_to_others_by_signed_paths_alone(
    client: Reader, keep: Keep, settings: Any
) -> None:
    blob, other = keep(BODY), keep(b"other")
    now = held_files.find_holder("here").now
    path = held_files.sign_held(blob.digest, now)
    found = client.get(path, headers=FRONT)
    assert (found.status_code, found["Cache-Control"], found.body) == (200, "no-store", BODY)
    signature = path.rpartition("/")[2]
    forged = [
        path.replace(blob.digest, other.digest),
        f"{path[:-1]}{'A' if path[-1] != 'A' else 'B'}",
        held_files.sign_held(blob.digest, now - held_files.HELD_SECONDS - 2),
        held_files.sign_held(blob.digest, now + 1000),
        f"/held/{blob.digest}/{int(now) + 60}/{signature}",
    ]
    assert {client.get(each).status_code for each in forged} == {403}
    assert client.get(held_files.sign_held("0" * 64, now)).status_code == 404
    assert client.post(path).status_code == 405
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", []
    assert client.get(path).status_code == 403


def test_a_machine_is_known_by_its_name_with_its_address(redis_servers: RedisServers) -> None:
    assert astuple(held_files.find_holder("a"))[:3] == (False, "", False)
    locks.hold_machine_name("a", "first", "10.0.0.2:8000")
    locks.hold_machine_name("a", "second", "10.0.0.3:8000")
    assert astuple(held_files.find_holder("a"))[:3] == (True, "10.0.0.2:8000", False)


def test_no_clock_of_a_machine_counts(keep: Keep, client: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    path = held_files.sign_held(keep(BODY).digest, held_files.find_holder("here").now)
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert client.get(path).status_code == 200


def test_without_state_nothing_is_given(
    keep: Keep, client: Reader, redis_servers: RedisServers, impatient: None
) -> None:
    path = held_files.sign_held(keep(BODY).digest, held_files.find_holder("here").now)
    redis_servers.state.stop()
    assert client.get(path).status_code == 503
