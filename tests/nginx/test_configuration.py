"""The templates make configurations that nginx accepts."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from project import nginx_config
from project.nginx_config import FrontConfig

from .conftest import nginx_command

VARIANTS: dict[str, dict[str, Any]] = {
    "as it is by default": {},
    "on a big machine": {"small": False},
    "behind a proxy": {"trusted_proxies": ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32"), "public_scheme": "https"},
    "for every host": {"allowed_hosts": ["*"]},
    "for no host": {"allowed_hosts": []},
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


def test_no_name_in_the_templates_is_left_open(front: FrontConfig) -> None:
    assert all("{{" not in text for text in nginx_config.render_templates(front).values())


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        nginx_config.fill_template("listen {{nothing}};", {})


def test_a_host_is_named_once() -> None:
    assert nginx_config.server_names(["a.example", "localhost", "a.example"]) == "a.example localhost"
