import pytest
from django.core.exceptions import ImproperlyConfigured

from project.environment import Environment

env = Environment()


@pytest.mark.parametrize(("text", "number"), [("2", 2), ("0025", 25), ("", 7)])
def test_a_whole_number_is_read(monkeypatch: pytest.MonkeyPatch, text: str, number: int) -> None:
    monkeypatch.setenv("WORKERS", text)
    assert env.whole("WORKERS", 7) == number


@pytest.mark.parametrize("text", ["two", "0", "-1", "1.5", "1e3", "2m", "٣", " 2", "1_000", "9" * 30])
def test_what_is_no_whole_number_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("WORKERS", text)
    with pytest.raises(ImproperlyConfigured, match=r"WORKERS is .* whole number of at least 1"):
        env.whole("WORKERS", 7)


@pytest.mark.parametrize(("text", "number"), [("25", 25.0), ("0.5", 0.5), ("", 1.5)])
def test_a_number_is_read(monkeypatch: pytest.MonkeyPatch, text: str, number: float) -> None:
    monkeypatch.setenv("WAIT", text)
    assert env.number("WAIT", 1.5) == number


@pytest.mark.parametrize("text", ["2m", "1e1", "1.500,5", "nan", "inf", "-1", "½", "1."])
def test_what_is_no_number_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("WAIT", text)
    with pytest.raises(ImproperlyConfigured, match="WAIT is"):
        env.number("WAIT", 1.5)


@pytest.mark.parametrize(("text", "on"), [("1", True), ("True", True), ("off", False), ("0", False), ("", True)])
def test_a_switch_is_read(monkeypatch: pytest.MonkeyPatch, text: str, on: bool) -> None:
    monkeypatch.setenv("SWITCH", text)
    assert env.switch("SWITCH", True) is on


def test_a_switch_that_is_neither_on_nor_off_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH", "maybe")
    with pytest.raises(ImproperlyConfigured, match="SWITCH is 'maybe'"):
        env.switch("SWITCH", False)


def test_a_word_that_is_none_of_the_choices_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVEL", "silly")
    with pytest.raises(ImproperlyConfigured, match="LEVEL is 'silly'; it must be one of INFO, ERROR"):
        env.choice("LEVEL", "INFO", ("INFO", "ERROR"))
