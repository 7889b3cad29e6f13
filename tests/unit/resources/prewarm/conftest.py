"""A layer with popular tiles, and a thread for each piece of work in place of the painters."""

from threading import Lock, Thread
from typing import Any

import pytest

from resources import tasks
from resources.database import run_then_disconnect
from retry import lanes, popularity, stores
from retry.work import Work

from ..conftest import Load


def painted_aside(*given: Any) -> None:
    run_then_disconnect(lambda: tasks.paint_block(*given))


class Painters:
    """Paints published work, at once, in a thread each."""

    def __init__(self) -> None:
        self.published: list[tuple[str, str]] = []
        self._lock = Lock()

    def publish(self, task: str, work_key: str, token: int, arguments: Any, lane: str) -> None:
        with self._lock:
            self.published.append((work_key, lane))
        Thread(target=painted_aside, args=(work_key, token, *arguments)).start()

    def paint(self, work: Work, token: int) -> None:
        arguments: Any = work.arguments
        tasks.paint_block(work.key, token, *arguments)

    @property
    def zooms(self) -> list[int]:
        return [int(key.split(":")[3]) for key, _ in self.published]


@pytest.fixture
def painters(monkeypatch: pytest.MonkeyPatch, settings: Any, load: Load) -> Painters:
    load(max_zoom=12, fresh_seconds=600)
    settings.PREWARM_FRONT = ""
    found = Painters()
    monkeypatch.setattr(lanes, "publish_work", found.publish)
    return found


def popular(**weights: float) -> None:
    named = {f"tile:jams:{key.replace('_', ':').removeprefix('z')}:png": weight for key, weight in weights.items()}
    assert stores.execute_call(popularity.count_call("here", b"", b"", [], named)) == 1
