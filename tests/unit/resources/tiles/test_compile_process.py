"""Files are read in child processes, a few at a time, which do not outlive their caller."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from project.paths import BASE_DIR
from resources.tiles import compile_process, publication
from resources.tiles.errors import LayerBusyError, LayerError
from tests.support.paint_jobs import Sleeping, Spinning
from tests.support.stack import eventually


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="nothing else ends a process with its parent")
def test_what_a_killed_process_had_read_ends_and_its_folder_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.paint_jobs", str(tmp_path)]
    asking = subprocess.Popen(command, cwd=BASE_DIR)
    eventually((tmp_path / "told").exists, 10, "the child has told its process")
    reader = int((tmp_path / "told").read_text())
    asking.kill()
    asking.wait()
    eventually(lambda: not is_running(reader), 10, "the child has ended")
    assert len(list((tmp_path / "uploads").glob("held-*"))) == 1
    with compile_process.upload_folder(tmp_path / "uploads") as mine:
        assert list((tmp_path / "uploads").glob("held-*")) == [mine]
    assert not mine.exists()


def test_uploads_that_django_left_behind_are_removed_when_they_are_old(tmp_path: Path) -> None:
    for name, age_seconds in (("old.upload", 7200), ("old.upload.geojson", 7200), ("new.upload.geojson", 60)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, times=(time.time() - age_seconds,) * 2)
    with compile_process.upload_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["new.upload.geojson"]


def test_no_more_are_read_at_once_than_is_allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.LAYER_COMPILED_AT_ONCE = 2
    monkeypatch.setattr(compile_process, "TURN_WAIT_SECONDS", 0)
    directory = publication.compile_allowance().uploads
    job = Sleeping(directory / "told")
    with (
        compile_process.take_upload_turn(directory, 2, 0),
        compile_process.take_upload_turn(directory, 2, 0),
        pytest.raises(LayerBusyError),
    ):
        compile_process.run_in_child(job.run, publication.compile_allowance())
    with compile_process.take_upload_turn(directory, 2, 0):
        pass


def test_a_child_without_a_parent_has_little_processor_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run

    def patiently(*arguments: Any, timeout: float, **named: Any) -> Any:
        return run(*arguments, timeout=timeout + 10, **named)

    monkeypatch.setattr("subprocess.run", patiently)
    with pytest.raises(LayerError, match="longer than 1 seconds"):
        compile_process.run_in_child(Spinning().run, compile_process.CompileAllowance(1, 3_000_000_000, 1, tmp_path))


def test_the_child_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "secret")
    allowance = compile_process.CompileAllowance(30, 3_000_000_000, 1, tmp_path)
    assert compile_process.run_in_child(partial(os.getenv, "SECRET_KEY"), allowance) is None


def test_a_child_whose_parent_is_gone_does_not_begin(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "resources.tiles.compile_process", str(tmp_path), "3000000000", "1", "5"]
    ended = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "gone" in ended.stderr
