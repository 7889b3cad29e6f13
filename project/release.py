"""`python -m project.release`: brings the database and static files up to date, once for all machines of a site.

Two releases at once are one after the other. A run on one machine begins with its own; with RELEASE=0 it waits for
that of another.
"""

import io
import logging
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from typing import Any

import django
import redis
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import ManifestFilesMixin
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import DatabaseError, OperationalError, connection
from django.db.migrations.executor import MigrationExecutor

from resources import locks
from retry import server_urls
from retry.conf import partition_of, partition_root
from retry.errors import StoreUnavailable

from . import nginx_values, preflight
from .environment import load_remembered
from .paths import BASE_DIR, DataDirectory, RuntimeDirectory, runtime_directory
from .preflight import StartError
from .processes import ROLES

_log = logging.getLogger("tarry.release")

RELEASE_WAIT_SECONDS = 60.0
"""How long a run with RELEASE=0 waits for a release."""
ADVISORY_LOCK = 0x7461727279
"""The number of PostgreSQL's lock for releases: "tarry"."""
LOCK_PAUSE_SECONDS = 0.2


def main() -> None:
    """Releases, and ends."""
    with explain_errors("Tarry cannot be released"):
        data, runtime = find_directories()
        preflight.make_directories(data, runtime)
        load_settings(data, runtime)
        release_site(data, f"{nginx_values.SAMPLES_HOST}:{settings.PORT}")
        for file in runtime.metrics.glob(f"*_{os.getpid()}.db"):  # else they count until the next start
            file.unlink()
        print("Database and static files are up to date.")


@contextmanager
def explain_errors(beginning: str) -> Iterator[None]:
    """Ends the process with a sentence for the operator where it cannot go on."""
    try:
        yield
    except StartError as error:
        sys.exit(f"{beginning}: {error}")
    except OSError as error:
        sys.exit(f"{beginning}: {preflight.explain_os_error(error)}")


def find_directories() -> tuple[DataDirectory, RuntimeDirectory]:
    """Returns the directories that the environment names. Makes none."""
    os.chdir(BASE_DIR)
    os.umask(0o077)
    data = DataDirectory(Path(os.environ.get("DATA_DIR") or BASE_DIR / "var").resolve())
    named = os.environ.get("RUNTIME_DIR")
    return data, RuntimeDirectory(Path(named).resolve()) if named else runtime_directory(data.root)


def load_settings(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    """Sets Django up, with a secret key. Raises StartError for wrong settings."""
    preflight.name_machine(data.machine)
    os.environ.update(site_environment(data, runtime))
    try:
        if not os.environ.get("SECRET_KEY"):
            _require_secret_key(data)
        django.setup()
    except (ImproperlyConfigured, ValueError) as error:
        raise StartError(f"a setting is wrong: {error}") from error


def _require_secret_key(data: DataDirectory) -> None:
    """Requires the key that the operator has named; makes one where none is named. Raises StartError."""
    if named := {**load_remembered(data.environment), **os.environ}.get("SECRET_KEY_FILE"):
        preflight.require_secret_key(Path(named))
    else:
        preflight.make_secret_key(data.secret_key)


def site_environment(data: DataDirectory, runtime: RuntimeDirectory) -> dict[str, str]:
    """The environment of all processes, unless the operator has set other values."""
    given = os.environ
    port = given.get("PORT") or "8000"
    roles = given.get("ROLES") or ",".join(ROLES)
    front, retry = (f"unix:{runtime.socket(role)}" if role in roles else "" for role in ("front", "retry"))
    return {
        "DATA_DIR": str(data.root),
        "RUNTIME_DIR": str(runtime.root),
        "PROMETHEUS_MULTIPROC_DIR": str(runtime.metrics),
        "DJANGO_SETTINGS_MODULE": given.get("DJANGO_SETTINGS_MODULE") or "project.settings",
        "PUBLIC_URL": given.get("PUBLIC_URL") or f"http://127.0.0.1:{port}",
        "RETRY_FRONT": given.get("RETRY_FRONT") or front,
        "RETRY_INSTANCE": given.get("RETRY_INSTANCE") or retry,
    }


def release_site(data: DataDirectory, samples: str) -> None:
    """Checks the settings, then brings everything up to date, and loads the demo. Raises StartError."""
    try:
        call_command("check", stdout=io.StringIO())  # warnings still go to standard error
        with _release_lock(data):
            call_command("migrate", interactive=False, verbosity=0)
            _make_admin()
            collect_static(data.collected)
            if settings.DEMO:
                _load_demo(data, samples)
    except (CommandError, DatabaseError, ImproperlyConfigured, ValueError) as error:
        raise StartError(str(error)) from error


def check_settings() -> None:
    """Checks the settings alone. Raises StartError."""
    try:
        call_command("check", stdout=io.StringIO())
    except CommandError as error:
        raise StartError(str(error)) from error


def await_release(data: DataDirectory) -> None:
    """Waits until another process has released this version, and collects static files. Raises StartError."""
    deadline = time.monotonic() + RELEASE_WAIT_SECONDS
    try:
        call_command("check", stdout=io.StringIO())
        while lacking := _lacking_migrations():
            if time.monotonic() > deadline:
                text = f"the database lacks {len(lacking)} things, the first of them {lacking[0]}"
                raise StartError(f"{text}. Run python -m project.release, or set RELEASE=1.")
            time.sleep(1)
        collect_static(data.collected)  # each machine serves its own
    except (CommandError, DatabaseError, ImproperlyConfigured, ValueError) as error:
        raise StartError(str(error)) from error


def _lacking_migrations() -> list[str]:
    """Lists the migrations of this version that the database has not, or that it cannot be asked for."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        return [f"an answer: {error}"]
    executor = MigrationExecutor(connection)
    return [str(migration) for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


@contextmanager
def _release_lock(data: DataDirectory) -> Iterator[None]:
    """Holds the lock of releases: in PostgreSQL for all machines, else for processes on this data."""
    if connection.vendor != "postgresql":
        with data.release_lock.open("w") as file:
            flock(file, LOCK_EX)
            yield
        return
    holder = connection.copy()  # a migration may close the usual one
    try:
        holder.set_autocommit(False)  # a lock of a transaction ends with it behind a pooler, too
        while not _take_lock(holder):
            time.sleep(LOCK_PAUSE_SECONDS)
        yield
    finally:
        holder.close()


def _take_lock(holder: Any) -> bool:
    """Tries to take the lock. A statement that waits for it would hold up an index that is made concurrently."""
    with holder.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [ADVISORY_LOCK])
        [is_taken] = cursor.fetchone()
    if not is_taken:
        holder.rollback()
    return bool(is_taken)


def collect_static(note: Path) -> None:
    """Collects the sources into STATIC_ROOT, unless `note` has their digest.

    If it is killed half-way it leaves no note, and the next start collects all files.
    """
    found = static_digest()
    manifest = Path(settings.STATIC_ROOT) / ManifestFilesMixin.manifest_name
    if manifest.is_file() and note.is_file() and note.read_text() == found:
        return
    note.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0)
    note.write_text(found)


def static_digest() -> str:
    """A digest of the names, sizes and times of the files to collect, and of the way they are named."""
    digest = sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            state = Path(storage.path(name)).stat()
            digest.update(f"\0{storage.path(name)}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return digest.hexdigest()


def _make_admin() -> None:
    """Makes a first administrator, and prints the password, this once."""
    users = django.apps.apps.get_model(settings.AUTH_USER_MODEL).objects
    if users.filter(is_superuser=True).exists():
        return
    password = secrets.token_urlsafe(12)
    users.create(username="admin", password=make_password(password), is_staff=True, is_superuser=True)
    print(f"Administrator: admin, password: {password} (shown only this once; sign in at /admin/)")


def _load_demo(data: DataDirectory, samples: str) -> None:
    """Loads the demo data that was never loaded here before. An admin may have deleted some of it."""
    try:
        call_command("demo", once=data.demo_loaded)
        call_command("demo_feeds", once=data.demo_loaded, samples=samples)
    except (CommandError, DatabaseError, OSError) as error:
        print(f"The demo data could not be loaded: {error}")


OLD_KEYS_SECONDS = 86_400
_ROOTS = {  # of learnt keys, by the beginnings of the names that earlier versions gave them
    **dict.fromkeys(("retry:popular:", "retry:requests", "retry:counted:"), ("retry", "requests")),
    **dict.fromkeys(("feeds:readers:", "feeds:combination-readers:", "feeds:reader-bytes:"), ("feeds", "readers")),
    **dict.fromkeys(("fetch:domain", "fetch:egresses", "fetch:scopes", "fetch:slow", "fetch:evidence"), ("fetch", "")),
    "retry:duration:": ("retry", ""),
}
_LANES = ("fast", "slow")
_FIELDS_OF_JOBS = (  # of a domain's record
    *("in_flight", "slow_in_flight", "robots_job", "later", "arrived"),
    *(f"{lane}_{priority}" for lane in _LANES for priority in (1, 2, 3)),
    *(f"{name}_{lane}" for name in ("sum", "at", "placed", "popular") for lane in _LANES),
)


def adopt_learnt_keys() -> None:
    """Copies what earlier versions learnt under names without a partition: popularity, durations, domains, readers.

    Once, in a `state` that is one server. The old names end a day later: processes of an earlier version that still run
    have claims and jobs of their own there. Logs an outage; the next worker that starts goes on.
    """
    try:
        with locks.open_state() as client:
            if server_urls.is_cluster(settings.REDIS_URL) or client.exists("upgraded:partitions"):
                return
            for family in ("retry", "fetch", "feeds"):
                for name in client.scan_iter(f"{family}:*", count=500):
                    _adopt_key(client, name.decode())
            client.set("upgraded:partitions", 1)
    except StoreUnavailable as error:
        _log.warning("learnt keys are not adopted yet", extra={"error": str(error)})


def _adopt_key(client: "redis.Redis", name: str) -> None:
    family = name.partition(":")[0]
    if f"{family}:{{" in name:
        return
    for prefix, (root, counted) in _ROOTS.items():
        if name.startswith(prefix):
            to = partition_root(root, partition_of(counted) if counted else 0) + name.removeprefix(family)
            client.copy(name, to)
            if name.startswith("fetch:domain:"):
                client.hdel(to, *_FIELDS_OF_JOBS)
    if family in {"retry", "fetch"}:
        client.expire(name, OLD_KEYS_SECONDS)


if __name__ == "__main__":
    main()
