"""The settings, each read from the environment and each described."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from unittest.mock import patch

import pytest
from django.core.exceptions import ImproperlyConfigured

from feeds import followers
from project.environment import celery_broker, storage_from
from project.paths import BASE_DIR
from resources.disk.shares import LEAST_BYTES, DiskData, divide_disk
from resources.fetch.frontier import queue
from resources.traffic import prepared
from retry import claims, popularity, stores

READ = re.compile(r"""\benv(?:\.\w+)?\(\s*"([A-Z_]+)""")
DESCRIBED = re.compile(r"^\| `([A-Z_]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def read_names() -> set[str]:
    return set(READ.findall((BASE_DIR / "project" / "settings.py").read_text()))


def described() -> dict[str, tuple[str, str]]:
    text = (BASE_DIR / "docs" / "settings.md").read_text()
    return {name: (default, meaning) for name, default, meaning in DESCRIBED.findall(text)}


def test_every_setting_and_nothing_else_is_described_with_its_default() -> None:
    assert len(read_names()) > 40
    assert read_names() == set(described())


@pytest.mark.parametrize("name", [name for name in sorted(read_names()) if name.endswith(("SECONDS", "TIMEOUT"))])
def test_times_are_described_with_their_unit(name: str) -> None:
    assert re.search(r"\d s\b", described()[name][0])


def test_the_environment_is_read_in_one_place() -> None:
    others = [path for path in (BASE_DIR / "project").glob("*.py") if path.name != "settings.py"]
    assert [path.name for path in others if READ.search(path.read_text())] == []


@pytest.mark.parametrize(
    ("redis_url", "expected"),
    [
        ("unix:///run/state.sock", "redis+socket:///run/state.sock?virtual_host=0"),
        ("unix:///run/state.sock?db=3", "redis+socket:///run/state.sock?virtual_host=3"),
        ("redis://:secret@host:6379/1", "redis://:secret@host:6379/1"),
        ("rediss://host/0", "rediss://host/0"),
    ],
)
def test_the_broker_is_the_state_server(redis_url: str, expected: str) -> None:
    assert celery_broker(redis_url) == (expected, {})


def test_files_are_stored_where_the_url_says() -> None:
    assert storage_from("file:///srv/a%20b")["OPTIONS"]["location"] == "/srv/a b"


def test_a_bucket_is_named_by_the_urls_path() -> None:
    options = storage_from("s3://key:se%2Fcret@store.example:9000/bucket/some/prefix?region=x&tls=0")["OPTIONS"]
    assert options["endpoint_url"] == "http://store.example:9000"
    assert (options["bucket_name"], options["location"]) == ("bucket", "some/prefix")
    assert (options["access_key"], options["secret_key"], options["region_name"]) == ("key", "se/cret", "x")


@pytest.mark.parametrize("url", ["ftp://user:secret@host/x", "s3://key:secret@host", "file://", "", "/srv/blobs"])
def test_an_unknown_storage_is_refused_without_repeating_secrets(url: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        storage_from(url)
    assert "secret@host" not in str(refusal.value)


def settings_with(tmp_path: Path, expression: str, **environment: str) -> str:
    """The value of an expression over the settings, as a process with this environment reads them."""
    spec = importlib.util.find_spec("project.settings")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    with patch.dict(os.environ, {"DATA_DIR": str(tmp_path), **environment}, clear=True):
        spec.loader.exec_module(fresh)
    return " ".join(map(str, eval(f"({expression},)", {"s": fresh})))


HTTPS, SAMPLES = {"PUBLIC_URL": "https://tarry.example:8443/"}, "127.0.0.2:8000"
COOKIES = "s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_HSTS_SECONDS, s.CSRF_TRUSTED_ORIGINS"
PUSHED = "s.FEEDS_PUSH, s.FEEDS_PUSH_NOTE"
HUBS = "s.FEEDS_HUB, s.CELERY_BEAT_SCHEDULE.get('hub', {}).get('task', '')"
HOSTS, WORKERS = "*s.ALLOWED_HOSTS", "s.MAIN_WORKERS, s.MAIN_THREADS, s.PAINT_WORKERS"


FOLLOWING = {
    "cookies of https": (COOKIES, HTTPS, "True True 3600 ['https://tarry.example:8443']"),
    "cookies of http": (COOKIES, {"PUBLIC_URL": "http://tarry.example"}, "False False 0 ['http://tarry.example']"),
    "hosts of the address": (HOSTS, HTTPS, "tarry.example localhost 127.0.0.1 [::1]"),
    "given hosts": (HOSTS, {"ALLOWED_HOSTS": "a.example,.b.example"}, "a.example .b.example"),
    "no given hosts": (HOSTS, {**HTTPS, "ALLOWED_HOSTS": ""}, "tarry.example localhost 127.0.0.1 [::1]"),
    "a connection that is cut off": (
        "*(s.DATABASES['default']['OPTIONS'][name] for name in ('connect_timeout', 'tcp_user_timeout'))",
        {"DATABASE_URL": "postgres://tarry@db/tarry?connect_timeout=7"},
        "7 10000",
    ),
    "no key in production": ("repr(s.SECRET_KEY)", {}, "''"),
    "a key in development": ("bool(s.SECRET_KEY)", {"DEBUG": "1"}, "True"),
    "a small site": (WORKERS, {"SMALL": "1"}, "1 4 1"),
    "a small site with threads": (WORKERS, {"SMALL": "1", "MAIN_THREADS": "6"}, "1 6 1"),
    "no demo": ("'demo' in s.CELERY_BEAT_SCHEDULE", {"DEMO": "0"}, "False"),
    "a demo": ("'demo' in s.CELERY_BEAT_SCHEDULE", {"DEMO": "1"}, "True"),
    "a site that others reach": (PUSHED, {"PUBLIC_URL": "https://tarry.org"}, "True "),
    "a site at home": (
        PUSHED,
        {"PUBLIC_URL": "http://nas.local"},
        "False Feeds are polled only: hubs and clouds cannot reach PUBLIC_URL (http://nas.local) to announce news.",
    ),
    "a site at home, by its router's name": ("s.FEEDS_PUSH", {"PUBLIC_URL": "http://nas.lan"}, "False"),
    "an admin who wants no push": (PUSHED, {"FEEDS_PUSH": "0"}, "False "),
    "the hub of a site that others reach": (HUBS, {"PUBLIC_URL": "https://tarry.org"}, "self feeds.distribute"),
    "no hub of a site at home": (HUBS, {"PUBLIC_URL": "http://nas.local"}, " "),
    "no hub where no address is known": (HUBS, {}, " "),
    "a hub that an admin has switched off": (HUBS, {"PUBLIC_URL": "https://tarry.org", "FEEDS_HUB": "none"}, " "),
    "a hub of a site at home": (HUBS, {"PUBLIC_URL": "http://nas.local", "FEEDS_HUB": "self"}, "self feeds.distribute"),
    "a hub elsewhere": (HUBS, {"FEEDS_HUB": "https://hub.example/"}, "https://hub.example/ feeds.tell_hub"),
    "no samples": ("s.FETCH_ALLOW_PRIVATE", {"DEMO": "1"}, "[]"),
    "samples": (
        "s.FETCH_ALLOW_PRIVATE",
        {"SAMPLES": SAMPLES, "FETCH_ALLOW_PRIVATE": "10.1.0.9"},
        f"['10.1.0.9', '{SAMPLES}']",
    ),
}


@pytest.mark.parametrize(("expression", "environment", "value"), FOLLOWING.values(), ids=FOLLOWING)
def test_settings_follow_others(tmp_path: Path, expression: str, environment: dict[str, str], value: str) -> None:
    assert settings_with(tmp_path, expression, **environment) == value


def test_the_key_is_read_from_the_data_directory(tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text("from the file\n")
    assert settings_with(tmp_path, "s.SECRET_KEY") == "from the file"
    assert settings_with(tmp_path, "s.SECRET_KEY", SECRET_KEY="given") == "given"


@pytest.mark.parametrize("small", ["0", "1"])
def test_full_lanes_leave_room_in_state(tmp_path: Path, small: str) -> None:
    """By the bytes that a work, a job of the fetchers, and a popular key of each kind were measured to take."""
    works = "sum((2600 + 1400 * ('line' in lane)) * lane['limit'] for lane in s.RETRY_LANES.values())"
    keys = "130 * 8 * s.POPULARITY_KEYS"
    shares = [claims.FAILURE_RECORDS, popularity.NAMED_GROUPS, prepared.NOTED_CONTENTS, *[stores.WINDOW_MEMBERS] * 3]
    shares += [queue.KNOWN_DOMAINS, queue.EVIDENT_DOMAINS, queue.SLOW_URLS]
    shared = sum(each.share for each in shares) + followers.READERS_KEPT.days * followers.DAY_SHARE_OF_STATE
    taken = float(settings_with(tmp_path, f"({works} + {keys}) / s.STATE_MAX_BYTES", SMALL=small))
    assert 0.8 < taken + shared < 1


def test_the_pages_may_load_tiles_from_where_clients_wait(tmp_path: Path) -> None:
    policy, server = "s.CONTENT_SECURITY_POLICY", "https://wait.example:8443"
    assert "http" not in settings_with(tmp_path, policy)
    elsewhere = settings_with(tmp_path, policy, RETRY_AFTER_SERVER=f"{server}/retry_after")
    assert elsewhere.count(f" {server};") == 2


def test_a_command_loads_neither_the_admin_pages_nor_the_api(tmp_path: Path) -> None:
    code = "import sys, django; django.setup(); import resources.tasks; sys.exit('ninja' in sys.modules)"
    assert status_of(code, tmp_path) == 0


def test_a_command_loads_neither_celery_nor_clients_of_redis_nor_parsers_nor_arrays_that_it_does_not_use(
    tmp_path: Path,
) -> None:
    names = "{'celery', 'redis', 'lxml', 'numpy'}"
    code = f"import sys, django; django.setup(); sys.exit(not {names}.isdisjoint(sys.modules))"
    assert status_of(code, tmp_path) == 0


SENDING = """
import sys, threading, django
django.setup()
from celery import shared_task
from django.conf import settings
found = []
def look():
    app = shared_task(look).app
    found.append((app.conf.broker_url, app.conf.task_default_queue, app.conf.broker_connection_timeout))
look()
thread = threading.Thread(target=look)
thread.start()
thread.join()
look()
sys.exit(set(found) != {(settings.CELERY_BROKER_URL, "work", settings.RETRY_REDIS_TIMEOUT)})
"""


def test_tasks_of_other_apps_go_to_the_sites_broker_in_commands_that_do_not_name_it(tmp_path: Path) -> None:
    assert status_of(SENDING, tmp_path) == 0


def test_a_process_collects_garbage_again_but_never_what_it_has_loaded(tmp_path: Path) -> None:
    code = "import gc, sys, django; django.setup(); sys.exit(not gc.isenabled() or not gc.get_freeze_count())"
    assert status_of(code, tmp_path) == 0


def status_of(code: str, data: Path) -> int:
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), "DJANGO_SETTINGS_MODULE": "project.settings"}
    return subprocess.run([sys.executable, "-c", code], cwd=BASE_DIR, env=env, check=False).returncode


BOUNDS = """
import json, sys
from project import settings
names = ("DISK_MAX_BYTES", "HOT_MAX_BYTES", "FETCH_SLOW_MAX_BYTES", "TRAFFIC_LOG_MAX_BYTES", "UPLOAD_MAX_BYTES")
print(json.dumps([getattr(settings, name) for name in names]))
"""


def bounds_of(data: Path, **given: str) -> list[int]:
    env = {"PATH": os.environ["PATH"], "DATA_DIR": str(data), "RUNTIME_DIR": str(data / "run"), **given}
    told = subprocess.run([sys.executable, "-c", BOUNDS], cwd=BASE_DIR, env=env, check=True, capture_output=True)
    found: list[int] = json.loads(told.stdout)
    return found


def test_a_bounded_disk_lowers_the_bounds_of_the_parts_and_raises_none(tmp_path: Path) -> None:
    unbounded, small = bounds_of(tmp_path), bounds_of(tmp_path, SMALL="1")
    assert (unbounded[0], small[0]) == (0, 2_000_000_000)
    assert all(bound < other for bound, other in zip(small[1:], unbounded[1:], strict=True))
    assert bounds_of(tmp_path, SMALL="1", DISK_MAX_BYTES="0")[1:] == unbounded[1:]
    assert bounds_of(tmp_path, DISK_MAX_BYTES=str(10**12)) == [10**12, *unbounded[1:]]
    assert bounds_of(tmp_path, SMALL="1", HOT_MAX_BYTES="1000000")[1] == 1_000_000


def test_all_processes_have_the_shares_that_their_start_noted(tmp_path: Path) -> None:
    given = divide_disk(LEAST_BYTES, DiskData(database_bytes=100_000_000))
    (tmp_path / "disk_shares.json").write_text(json.dumps(asdict(given)))
    assert bounds_of(tmp_path, DISK_MAX_BYTES=str(LEAST_BYTES))[1] == given.hot_max_bytes
    anew = divide_disk(2 * LEAST_BYTES, DiskData())
    assert anew.hot_max_bytes * 0.9 < bounds_of(tmp_path, DISK_MAX_BYTES=str(2 * LEAST_BYTES))[1] <= anew.hot_max_bytes
    (tmp_path / "disk_shares.json").write_text("broken")
    assert bounds_of(tmp_path, DISK_MAX_BYTES=str(LEAST_BYTES))[1] > given.hot_max_bytes
