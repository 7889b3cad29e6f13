"""The terminal's messages of a start."""

import io
import json
from email.message import Message
from urllib.error import HTTPError

import pytest

from project import announce

SLOW = "Still starting. These parts do not work yet: state, workers."
READY = "Tarry is ready: http://127.0.0.1:8000/   (Ctrl-C ends it)"
NOTE = "Feeds are polled only."


@pytest.mark.parametrize(
    ("missing", "quiet_seconds", "lines"),
    [([["state", "workers"], ["state"], []], 0, [SLOW, READY, NOTE]), ([["the front"], []], 60, [READY, NOTE])],
    ids=["takes long", "does not"],
)
def test_a_start_that_takes_long_says_once_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    missing: list[list[str]],
    quiet_seconds: float,
    lines: list[str],
) -> None:
    looks = iter(missing)
    monkeypatch.setattr(announce, "_missing_parts", lambda _: next(looks))
    monkeypatch.setattr(announce, "AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(announce, "QUIET_SECONDS", quiet_seconds)
    announce.main("http://127.0.0.1:8000", "/logs", "Feeds are polled only.")
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ({"state": {"ok": True}, "machines": {"ok": False}}, []),
        ({"state": {"ok": False}, "machines": {"ok": False}}, ["state"]),
    ],
    ids=["another machine is in trouble", "this one is, too"],
)
def test_a_start_does_not_wait_for_other_machines(parts: dict[str, dict[str, bool]], missing: list[str]) -> None:
    body = io.BytesIO(json.dumps({"ok": False, "parts": parts}).encode())
    with HTTPError("http://127.0.0.1:8000/healthz", 503, "", Message(), body) as error:
        assert announce._failing_parts(error) == missing
