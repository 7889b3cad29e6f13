"""Management commands in another terminal mean the site that runs."""

import stat
from pathlib import Path

from project.remembering import remember, remembered
from tests.project.test_settings import settings_with


def test_settings_are_kept_and_other_variables_are_not(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    remember(path, {"PORT": "9", "DATABASE_URL": "postgres://x/y", "HOME": "/h", "path": "x"}, ["PORT", "path"])
    assert remembered(path) == {"PORT": "9", "DATABASE_URL": "postgres://x/y"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_keys_are_not_written_down(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    remember(path, {"SECRET_KEY": "k"}, ["SECRET_KEY"])
    assert "k" not in remembered(path).values()


def test_without_a_run_nothing_is_remembered(tmp_path: Path) -> None:
    assert remembered(tmp_path / "missing" / "environment.json") == {}


def test_the_environment_goes_before_what_was_noted(tmp_path: Path) -> None:
    remember(tmp_path / "environment.json", {"PUBLIC_URL": "http://noted", "PORT": "9"}, ["PUBLIC_URL", "PORT"])
    assert settings_with(tmp_path, "s.PUBLIC_URL, s.PORT") == "http://noted 9"
    assert settings_with(tmp_path, "s.PUBLIC_URL, s.PORT", PUBLIC_URL="http://given") == "http://given 9"
