"""The terminal's messages of a start."""

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
