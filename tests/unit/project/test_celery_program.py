"""Celery's worker and beat as programs of the site."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from celery import signals

from project.celery import app
from project.celery_program import BeatThread
from project.paths import BASE_DIR


def test_beat_within_a_worker_is_a_thread_that_ends_when_it_is_told_to() -> None:
    step = BeatThread(SimpleNamespace(), beat_thread=True)
    beat: Any = step.create(SimpleNamespace(app=app, scheduler="celery.beat:Scheduler"))
    step.obj = beat
    assert step.include_if(None)
    assert isinstance(step.obj, Thread)
    assert beat.daemon
    beat.service.scheduler.tick = lambda: 0.01
    beat.start()
    step.stop(None)
    beat.join(5)
    assert not beat.is_alive()


def test_a_worker_has_no_beat_unless_it_is_told_to() -> None:
    assert not BeatThread(SimpleNamespace()).include_if(None)


def test_beat_as_a_process_of_a_worker_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Celery's own option, by which the supervisord of an earlier version starts it."""
    ended_with: list[int] = []
    monkeypatch.setattr("resources.sandbox.end_with_parent", ended_with.append)
    signals.celeryd_init.send(sender="work@here", instance=None, conf=None, options={})
    signals.beat_embedded_init.send(sender=None)
    assert set(ended_with) == {os.getpid()}


@pytest.mark.parametrize("name", ["worker", "beat"])
def test_it_takes_celerys_options_and_loads_no_interactive_shell(name: str, tmp_path: Path) -> None:
    code = f"""
import sys
from project import celery_program
try:
    celery_program.main("{name}", "--help")
finally:
    print("prompt_toolkit" in sys.modules)
"""
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BASE_DIR, env=env, capture_output=True, text=True, check=True
    )
    assert ("--beat-thread" in done.stdout) is (name == "worker")
    assert done.stdout.endswith("False\n")
