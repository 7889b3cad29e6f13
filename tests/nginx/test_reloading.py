"""The configuration taken up anew by an nginx that runs."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from project import nginx_config, nginx_reload, nginx_values
from project.nginx_config import FrontConfig
from project.preflight import StartError

from .conftest import RunningFront
from .origin import Answer, Asked

NEW_HOST = "new.example"
Reload = Callable[..., None]


@pytest.fixture
def reload(site: RunningFront, monkeypatch: pytest.MonkeyPatch) -> Reload:
    """Reloads as project.nginx_reload does, with these changes to the front's values."""

    def take_up(**changes: Any) -> None:
        front = replace(site.front, **changes)
        monkeypatch.setattr(nginx_values, "front_config", lambda *_, **__: front)
        nginx_reload.reload_nginx(front.data, front.runtime)

    return take_up


def told(site: RunningFront, host: str, status: int) -> None:
    deadline = time.monotonic() + 10
    while site.get("/tiles/a", host=host).status != status:
        assert time.monotonic() < deadline, f"{host} is not answered {status}"
        time.sleep(0.02)


def test_what_has_changed_holds_and_who_waits_has_an_answer(site: RunningFront, reload: Reload) -> None:
    has_come, may_go = threading.Event(), threading.Event()

    def hold(_: Asked) -> Answer:
        has_come.set()
        assert may_go.wait(20)
        return Answer(body=b"at last")

    site.retry.answer = hold
    assert site.get("/tiles/a", host=NEW_HOST).status == 421
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(site.get, "/retry_after?key=a")
        assert has_come.wait(10)
        reload(allowed_hosts=[NEW_HOST])
        told(site, NEW_HOST, 200)
        may_go.set()
        assert waiting.result(10).body == b"at last"


def test_old_workers_stay_for_longer_than_anybody_may_wait(front: FrontConfig) -> None:
    for limits in ({"proxy_timeout_seconds": 300}, {"admin_timeout_seconds": 300}):
        text = nginx_config.render_templates(replace(front, **limits))["nginx.conf"]  # type: ignore[arg-type]
        assert "worker_shutdown_timeout 305s;" in text


def test_a_wrong_configuration_is_told_and_changes_nothing(site: RunningFront, reload: Reload) -> None:
    files = {file: file.read_text() for file in site.front.runtime.nginx.glob("*.conf")}
    with pytest.raises(StartError, match="invalid port"):
        reload(listen="nowhere:port")
    assert {file: file.read_text() for file in files} == files
    assert site.get("/tiles/a").status == 200


@pytest.mark.parametrize("text", [None, "", "0x", str(2**22 + 1)])
def test_without_an_nginx_the_error_says_what_to_do(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "nginx.pid"
    if text is not None:
        file.write_text(text)
    with pytest.raises(StartError, match="Set DATA_DIR"):
        nginx_reload.running_nginx(file)
