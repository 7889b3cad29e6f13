"""Management commands in another terminal mean the site that runs."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from project.environment import Environment, load_remembered, remember_environment

from .test_settings import settings_with

env = Environment()


@pytest.mark.parametrize(
    ("text", "read", "value"),
    [
        *((text, lambda: env.whole("NAME", 7), value) for text, value in [("2", 2), ("0025", 25), ("", 7)]),
        *((text, lambda: env.number("NAME", 1.5), value) for text, value in [("25", 25.0), ("0.5", 0.5), ("", 1.5)]),
        *((text, lambda: env.switch("NAME", True), True) for text in ("1", "True", "")),
        *((text, lambda: env.switch("NAME", True), False) for text in ("off", "0")),
        *(
            (text, lambda: env.processes("NAME", 3), value)
            for text, value in [("auto", len(os.sched_getaffinity(0))), ("", 3)]
        ),
        *(
            (text, lambda: env.some("NAME", ("a", "b", "c")), value)
            for text, value in [("c,a", ["a", "c"]), ("b", ["b"])]
        ),
    ],
)
def test_a_number_or_a_switch_is_read(
    monkeypatch: pytest.MonkeyPatch, text: str, read: Callable[[], object], value: object
) -> None:
    monkeypatch.setenv("NAME", text)
    assert read() == value


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        *(
            (lambda: env.whole("NAME", 7), text, "NAME is .* whole number of at least 1")
            for text in ("two", "0", "-1", "1.5", "1e3", "2m", "٣", " 2", "1_000", "9" * 30)
        ),
        *(
            (lambda: env.number("NAME", 1.5), text, "NAME is .* must be a number")
            for text in ("2m", "1e1", "1.500,5", "nan", "inf", "-1", "½", "1.")
        ),
        (lambda: env.database("NAME", ""), "foo", "NAME must be postgres://"),
        (lambda: env.processes("NAME", 1), "many", "NAME is 'many'"),
        (lambda: env.some("NAME", ("a", "b")), "a,silly", "NAME has 'silly'; it must have some of a, b"),
        (lambda: env.switch("NAME", False), "silly", "NAME is 'silly'; it must be 1 or 0"),
        (lambda: env.choice("NAME", "INFO", ("INFO", "ERROR")), "silly", "it must be one of INFO, ERROR"),
    ],
)
def test_a_value_of_another_form_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[], object], text: str, reason: str
) -> None:
    monkeypatch.setenv("NAME", text)
    with pytest.raises(ImproperlyConfigured, match=reason):
        read()


def test_settings_are_kept_but_neither_keys_nor_other_variables(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    assert load_remembered(path) == {}
    kept, others = (
        {"PORT": "9", "DATABASE_URL": "postgres://x/y", "MAIL_URL": "smtp://x"},
        {"HOME": "/h", "path": "x", "SECRET_KEY": "k"},
    )
    remember_environment(path, {**kept, **others}, ["PORT", "path", "SECRET_KEY"])
    assert load_remembered(path) == kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_environment_goes_before_what_was_noted(tmp_path: Path) -> None:
    noted = {"PUBLIC_URL": "http://noted", "PORT": "9"}
    remember_environment(tmp_path / "environment.json", noted, noted)
    assert settings_with(tmp_path, "s.PUBLIC_URL, s.PORT") == "http://noted 9"
    assert settings_with(tmp_path, "s.PUBLIC_URL, s.PORT", PUBLIC_URL="http://given") == "http://given 9"
