"""`python -m project.run`: prepares the site, then runs all its processes in the foreground.

nginx and redis-server must be installed: setup.sh does that. Static files are collected only if a source has changed.
"""

import io
import os
import secrets
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import django
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import ManifestFilesMixin
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from . import nginx_config, nginx_values, preflight, processes, supervisor
from .environment import remember_environment
from .paths import BASE_DIR, DataDirectory, RuntimeDirectory, runtime_directory
from .preflight import StartError
from .processes import ProcessPlan


def main() -> None:
    """Starts the site. On success this process becomes supervisord."""
    try:
        command = prepare_run()
    except StartError as error:
        sys.exit(f"Tarry cannot start: {error}")
    except OSError as error:
        sys.exit(f"Tarry cannot start: {preflight.explain_os_error(error)}")
    os.execv(command[0], command)  # noqa: S606  a list of our own


def prepare_run() -> list[str]:
    """Makes everything that the processes need. Returns supervisord's command. Raises StartError."""
    os.chdir(BASE_DIR)
    os.umask(0o077)
    tools = {name: preflight.find_tool(name) for name in ("nginx", "redis-server")}
    data = DataDirectory(Path(os.environ.get("DATA_DIR") or BASE_DIR / "var").resolve())
    named = os.environ.get("RUNTIME_DIR")
    runtime = RuntimeDirectory(Path(named).resolve()) if named else runtime_directory(data.root)
    preflight.make_directories(data, runtime)
    preflight.hold_lock(data.lock)
    data.environment.unlink(missing_ok=True)  # this run has its own environment
    preflight.empty_directory(data.uploads)
    supervisor.remove_unfinished_files(data.hot)
    if not os.environ.get("SECRET_KEY"):
        preflight.make_secret_key(data.secret_key)
    os.environ.update(run_environment(data, runtime))
    preflight.empty_directory(runtime.metrics)
    try:
        django.setup()
    except (ImproperlyConfigured, ValueError) as error:
        raise StartError(f"a setting is wrong: {error}") from error
    preflight.require_free_port(settings.LISTEN, settings.PORT)
    preflight.require_quiet(runtime)
    waiting = nginx_values.waiting_site()
    if waiting.listen:
        preflight.require_free_port(*waiting.address, setting="RETRY_LISTEN")
    samples = offer_samples()
    _prepare_site(data, samples)
    files = preflight.raise_file_limit()
    front = nginx_values.front_config(data, runtime, files=files, samples=samples)
    nginx_config.write_configuration(front)
    plan = _make_plan(data, runtime, tools, waiting.listen)
    user = "root" if os.getuid() == 0 else ""
    supervised = processes.list_processes(plan)
    text = processes.supervisord_configuration(supervised, logs=data.logs, runtime=runtime.root, user=user)
    runtime.supervisor.write_text(text)
    remember_environment(data.environment, os.environ, dir(settings))
    _announce(data)
    given = [str(data.hot), *_traffic_arguments(), "-c", str(runtime.supervisor)]
    return [sys.executable, "-m", "project.supervisor", *given]


def run_environment(data: DataDirectory, runtime: RuntimeDirectory) -> dict[str, str]:
    """The environment of all processes, unless the operator has set other values."""
    given = os.environ
    port = given.get("PORT") or "8000"
    return {
        "DATA_DIR": str(data.root),
        "RUNTIME_DIR": str(runtime.root),
        "PROMETHEUS_MULTIPROC_DIR": str(runtime.metrics),
        "DJANGO_SETTINGS_MODULE": given.get("DJANGO_SETTINGS_MODULE") or "project.settings",
        "PUBLIC_URL": given.get("PUBLIC_URL") or f"http://127.0.0.1:{port}",
        "RETRY_FRONT": given.get("RETRY_FRONT") or f"unix:{runtime.socket('front')}",
        "RETRY_INSTANCE": given.get("RETRY_INSTANCE") or f"unix:{runtime.socket('retry')}",
    }


def offer_samples() -> str:
    """The host and port at which nginx serves the demo's sample feeds; empty without a demo, or if they are taken.

    All processes get it as SAMPLES: the fetchers may ask there, and nothing else may listen there.
    """
    offered = f"{nginx_values.SAMPLES_HOST}:{settings.PORT}"
    os.environ["SAMPLES"] = offered if settings.DEMO and _is_free(offered) else ""
    return os.environ["SAMPLES"]


def _is_free(address: str) -> bool:
    host, _, port = address.partition(":")
    if address in (f"{settings.LISTEN}:{settings.PORT}", settings.RETRY_LISTEN):
        print(f"No sample feeds are served: the site itself is at {address}")
        return False
    try:
        preflight.require_free_port(host, int(port))
    except StartError as error:
        print(f"No sample feeds are served: {error}")
        return False
    return True


def _prepare_site(data: DataDirectory, samples: str) -> None:
    """Brings database and static files up to date, and loads the demo. Raises StartError."""
    try:
        call_command("check", stdout=io.StringIO())  # warnings still go to standard error
        call_command("migrate", interactive=False, verbosity=0)
        collect_static(data.collected)
    except (CommandError, DatabaseError, ImproperlyConfigured, ValueError) as error:
        raise StartError(str(error)) from error
    _make_admin()
    if settings.DEMO:
        _load_demo(data, samples)


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


def _make_plan(data: DataDirectory, runtime: RuntimeDirectory, tools: dict[str, str], waiting: str) -> ProcessPlan:
    return ProcessPlan(
        python=sys.executable,
        redis_server=tools["redis-server"],
        nginx=tools["nginx"],
        data=data,
        runtime=runtime,
        small=settings.SMALL,
        own_state=settings.REDIS_URL == f"unix://{runtime.socket('state')}",
        own_cache=settings.CACHE_URL == f"unix://{runtime.socket('cache')}",
        state_max_bytes=settings.STATE_MAX_BYTES,
        cache_max_bytes=settings.CACHE_MAX_BYTES,
        paint_workers=settings.PAINT_WORKERS,
        retry_timeout_seconds=settings.DEFAULT_RETRY_TIMEOUT,
        launcher=preflight.launcher_prefix("TERM"),
        worker_launcher=preflight.launcher_prefix("KILL"),
        idle=preflight.idle_prefix(),
        listening=tuple(filter(None, (f"{settings.LISTEN}:{settings.PORT}", waiting))),
    )


def _traffic_arguments() -> list[str]:
    if not settings.OBSERVE:
        return []
    return [str(settings.TRAFFIC_LOG), str(settings.TRAFFIC_LOG_MAX_BYTES), str(settings.NGINX_PID_FILE)]


def _announce(data: DataDirectory) -> None:
    """Starts a child that prints when the site is ready. supervisord cannot: it owns no terminal."""
    everywhere = settings.LISTEN in {"0.0.0.0", "[::]"}  # noqa: S104  compared, not bound
    # Behind a proxy the public address is another.
    address = f"http://{'127.0.0.1' if everywhere else settings.LISTEN}:{settings.PORT}"
    print(f"Starting Tarry on {address} (logs: {data.logs})", flush=True)
    announce = [sys.executable, "-m", "project.announce", address, str(data.logs), settings.FEEDS_PUSH_NOTE]
    subprocess.Popen([*preflight.launcher_prefix("TERM"), *announce])


if __name__ == "__main__":
    main()
