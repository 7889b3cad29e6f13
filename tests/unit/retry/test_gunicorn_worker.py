"""The waiting instance's server: when it makes way for its successor."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from pytest_django import Settings
from uvicorn.config import Config
from uvicorn.server import ServerState

from retry.asgi import WaitingApplication
from retry.gunicorn_worker import ORPHAN_TICKS, ReleasingServer, RetryWorker

NOBODY = 0


def test_the_master_does_not_load_the_application() -> None:
    code = "import sys, retry.gunicorn_worker; sys.exit('retry.asgi' in sys.modules or 'django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def app(scope: object, receive: object, send: object) -> None:
    raise AssertionError("nobody asks")


def ends(server: ReleasingServer, ticks: int = 1) -> bool:
    async def pass_time() -> bool:
        return any([await server.on_tick(1) for _ in range(ticks)])

    return asyncio.run(pass_time())


@pytest.fixture
def socket_file(tmp_path: Path) -> Path:
    file = tmp_path / "retry.sock"
    file.touch()
    return file


def test_a_server_whose_master_lives_goes_on(socket_file: Path) -> None:
    server = ReleasingServer(Config(app), release=print, master=os.getppid(), addresses=[str(socket_file)])
    socket_file.unlink()
    assert not ends(server, ORPHAN_TICKS + 1)


@pytest.mark.parametrize("has_successor", [True, False])
def test_an_orphan_serves_until_its_successor_listens_or_none_has_come(socket_file: Path, has_successor: bool) -> None:
    server = ReleasingServer(Config(app), release=print, master=NOBODY, addresses=[str(socket_file)])
    assert not ends(server, 5 if has_successor else ORPHAN_TICKS)
    if has_successor:
        socket_file.unlink()
        socket_file.touch()
    assert ends(server)
    on_a_port = ReleasingServer(Config(app), release=print, master=NOBODY, addresses=[("127.0.0.1", 8001)])
    assert ends(on_a_port)  # which it leaves to its successor


MALFORMED = [b"ENTIRE /retry_after HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n"]


def new_protocol(application: Any = None) -> Any:
    config = Config(application or app, **cast("dict[str, Any]", RetryWorker.CONFIG_KWARGS))
    config.load()
    protocol_class: Any = config.http_protocol_class
    return protocol_class(config=config, server_state=ServerState(), app_state={}, _loop=Mock())


@pytest.mark.parametrize("sent", [*MALFORMED, "GET /retry_after?é HTTP/1.1\r\nHost: a\r\n\r\n".encode()])
def test_what_is_malformed_is_refused_by_a_problem(sent: bytes) -> None:
    transport, protocol = Mock(), new_protocol()
    protocol.connection_made(transport)
    protocol.data_received(sent)
    [[answer]] = [call.args for call in transport.write.call_args_list]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    for field in (b"Content-Type: application/problem+json", b"Cache-Control: no-store", b"Allow-Origin: *"):
        assert field in head
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body)["status"] == 400
    transport.close.assert_called_once_with()


@pytest.mark.parametrize(("peer", "is_refused"), [(("10.0.0.7", 1), False), (("10.0.1.7", 1), True), ("", False)])
def test_only_fronts_are_answered_by_tcp_and_all_others_at_once(
    settings: Settings, peer: object, is_refused: bool
) -> None:
    settings.FRONTS = ("10.0.0.0/24",)
    transport = Mock()
    transport.get_extra_info = lambda name, default=None: {"peername": peer}.get(name, default)
    protocol = new_protocol(WaitingApplication())
    protocol.connection_made(transport)
    told = [call.args[0].startswith(b"HTTP/1.1 403 ") for call in transport.write.call_args_list]
    assert told == [True] * is_refused
    protocol.data_received(MALFORMED[0])
    assert transport.write.call_count == 1  # nothing more than the refusal, or a front's answer


def test_nothing_is_logged_of_requests_whose_addresses_hold_tickets() -> None:
    code = (
        "import logging; from gunicorn.config import Config; from gunicorn.glogging import Logger\n"
        "from retry.gunicorn_worker import RetryWorker\n"
        "logging.basicConfig()\n"
        "settings = Config(); worker = RetryWorker(0, 0, [], None, 1, settings, Logger(settings))\n"
        "raise SystemExit(logging.getLogger('uvicorn.access').hasHandlers())"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
