"""The templates make configurations that nginx accepts."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from project import fronting
from project.fronting import Front
from tests.nginx.conftest import nginx_command

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
def test_nginx_accepts_the_configuration(front: Front, changes: dict[str, Any]) -> None:
    changed = replace(front, **changes)
    fronting.write(changed)
    done = subprocess.run([*nginx_command(changed), "-t"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


def test_no_name_in_the_templates_is_left_open(front: Front) -> None:
    assert all("{{" not in text for text in fronting.rendered(front).values())


def test_a_name_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        fronting.filled_in("listen {{nothing}};", {})


def test_a_host_is_named_once() -> None:
    assert fronting.server_names(["a.example", "localhost", "a.example"]) == "a.example localhost"
