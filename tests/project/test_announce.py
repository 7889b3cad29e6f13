"""What the terminal tells of a start."""

from collections.abc import Iterator

import pytest

from project import announce


def told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: list[list[str]], quiet_seconds: float
) -> list[str]:
    """The lines of a start at which these parts are missing, one look after the other."""
    looks: Iterator[list[str]] = iter(missing)
    monkeypatch.setattr(announce, "_missing", lambda _: next(looks))
    monkeypatch.setattr(announce, "AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(announce, "QUIET_SECONDS", quiet_seconds)
    announce.main("http://127.0.0.1:8000", "/logs")
    return capsys.readouterr().out.splitlines()


def test_a_start_that_takes_long_says_once_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = told(monkeypatch, capsys, [["state", "workers"], ["state"], []], 0)
    assert lines[0] == "Still starting. These parts do not work yet: state, workers."
    assert lines[1].startswith("Tarry is ready")
    assert len(lines) == 2


def test_a_start_that_does_not_says_nothing_before_it_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [line] = told(monkeypatch, capsys, [["the front"], []], 60)
    assert line.startswith("Tarry is ready")
