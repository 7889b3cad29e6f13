"""The templates make configurations that nginx accepts, also while it runs."""

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from project import nginx_config, nginx_reload, nginx_values
from project.nginx_config import FrontConfig
from project.preflight import StartError

from ..support.stack import eventually
from .conftest import RunningFront, Start, nginx_command
from .origin import Answer, Asked

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is by default": {},
    "on a big machine": {"small": False},
    "behind a proxy": {"trusted_proxies": ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32"), "public_scheme": "https"},
    "for every host": {"allowed_hosts": ["*"]},
    "for no host": {"allowed_hosts": []},
    "for a host that is named twice": {"allowed_hosts": ["a.example", "localhost", "a.example"]},
    "with a log of traffic": {"traffic_log": Path("/dev/null"), "counted": ("/tiles/", "/a.b~c/")},
    "with files that it serves straight": {"served": Path("/srv/a b"), "hot_seconds": 9},
    "with the waiting instance elsewhere": {"retry_path": "/wait/here"},
}


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_nginx_accepts_the_configuration(front: FrontConfig, changes: dict[str, Any]) -> None:
    changed = replace(front, **changes)
    nginx_config.write_configuration(changed)
    done = subprocess.run([*nginx_command(changed), "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


NEW_HOST = "new.example"


def reload(site: RunningFront, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Reloads as project.nginx_reload does, with these changes to the front's values."""
    front = replace(site.front, **changes)
    monkeypatch.setattr(nginx_values, "front_config", lambda *_, **__: front)
    nginx_reload.reload_nginx(front.data, front.runtime)


def test_a_new_configuration_holds_and_waiting_clients_get_their_answers(
    launch: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, has_come, may_go = launch(), threading.Event(), threading.Event()

    def hold(_: Asked) -> Answer:
        has_come.set()
        assert may_go.wait(20)
        return Answer(body=b"at last")

    site.retry.answer = hold
    assert site.get("/tiles/a", host=NEW_HOST).status == 421
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(site.get, "/retry_after?key=a")
        assert has_come.wait(10)
        reload(site, monkeypatch, allowed_hosts=[NEW_HOST])
        eventually(lambda: site.get("/tiles/a", host=NEW_HOST).status == 200, 10, "the new host is answered")
        may_go.set()
        assert waiting.result(10).body == b"at last"


def test_old_workers_stay_longer_than_the_longest_wait(front: FrontConfig) -> None:
    for limits in ({"proxy_timeout_seconds": 300}, {"admin_timeout_seconds": 300}):
        text = nginx_config.render_templates(replace(front, **limits))["nginx.conf"]  # type: ignore[arg-type]
        assert "worker_shutdown_timeout 305s;" in text


def test_a_wrong_configuration_is_told_and_changes_nothing(site: RunningFront, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {file: file.read_text() for file in site.front.runtime.nginx.glob("*.conf")}
    with pytest.raises(StartError, match="invalid port"):
        reload(site, monkeypatch, listen="nowhere:port")
    assert {file: file.read_text() for file in files} == files
    assert site.get("/tiles/a").status == 200


@pytest.mark.parametrize("text", [None, "", "0x", str(2**22 + 1)])
def test_without_an_nginx_the_error_says_what_to_do(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "nginx.pid"
    if text is not None:
        file.write_text(text)
    with pytest.raises(StartError, match="Set DATA_DIR"):
        nginx_reload.running_nginx(file)
