"""`python -m project.run`: prepares what the processes need, then runs them all in the foreground.

nginx and redis-server it only looks for: setup.sh installs them.
"""

import io
import os
import secrets
import subprocess
import sys
from pathlib import Path

import django
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from . import collecting, facing, fronting, starting, supervision, unfinished
from .limits import raise_file_limit
from .paths import BASE_DIR, DataDirectory, RuntimeDirectory, runtime_directory
from .processes import Plan, processes
from .remembering import remember
from .starting import StartError
from .waiting import Elsewhere


def main() -> None:
    """Starts the site. On success this process becomes supervisord."""
    try:
        command = prepare()
    except StartError as error:
        sys.exit(f"Tarry cannot start: {error}")
    except OSError as error:
        sys.exit(f"Tarry cannot start: {starting.trouble(error)}")
    os.execv(command[0], command)  # noqa: S606  a list of our own


def prepare() -> list[str]:
    """Makes what the processes need; returns supervisord's command. Raises StartError."""
    os.chdir(BASE_DIR)
    os.umask(0o077)
    tools = {name: starting.tool(name) for name in ("nginx", "redis-server")}
    data = DataDirectory(Path(os.environ.get("DATA_DIR") or BASE_DIR / "var").resolve())
    named = os.environ.get("RUNTIME_DIR")
    runtime = RuntimeDirectory(Path(named).resolve()) if named else runtime_directory(data.root)
    starting.make_directories(data, runtime)
    starting.hold_lock(data.lock)
    data.environment.unlink(missing_ok=True)  # this run is told anew
    starting.empty_directory(data.uploads)
    unfinished.remove(data.hot)
    if not os.environ.get("SECRET_KEY"):
        starting.make_secret_key(data.secret_key)
    os.environ.update(environment(data, runtime))
    starting.empty_directory(runtime.metrics)
    _read_settings()
    starting.require_free_port(settings.LISTEN, settings.PORT)
    starting.require_quiet(runtime)
    waiting = _elsewhere()
    samples = offer_samples()
    _prepare_site(data, samples)
    front = facing.front(data, runtime, files=raise_file_limit(), samples=facing.samples(samples))
    fronting.write(front)
    plan = _plan(data, runtime, tools, waiting)
    user = "root" if os.getuid() == 0 else ""
    text = supervision.configuration(processes(plan), logs=data.logs, runtime=runtime.root, user=user)
    runtime.supervisor.write_text(text)
    remember(data.environment, os.environ, dir(settings))
    _announce(data)
    return [sys.executable, "-m", "project.supervised", str(data.hot), *_traffic(), "-c", str(runtime.supervisor)]


def environment(data: DataDirectory, runtime: RuntimeDirectory) -> dict[str, str]:
    """What all processes are told, unless the operator said otherwise."""
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


def _read_settings() -> None:
    try:
        django.setup()
    except (ImproperlyConfigured, ValueError) as error:
        raise StartError(f"a setting is wrong: {error}") from error


def offer_samples() -> str:
    """Where nginx is to serve the demo's sample feeds, host and port; empty without a demo, or if that is taken.

    All processes are told (SAMPLES): the fetchers may ask there, and nothing else may listen there.
    """
    offered = f"{facing.SAMPLES_HOST}:{settings.PORT}"
    os.environ["SAMPLES"] = offered if settings.DEMO and _is_free(offered) else ""
    return os.environ["SAMPLES"]


def _is_free(address: str) -> bool:
    host, _, port = address.partition(":")
    if address in (f"{settings.LISTEN}:{settings.PORT}", settings.RETRY_LISTEN):
        print(f"No sample feeds are served: the site itself is at {address}")
        return False
    try:
        starting.require_free_port(host, int(port))
    except StartError as error:
        print(f"No sample feeds are served: {error}")
        return False
    return True


def _prepare_site(data: DataDirectory, samples: str) -> None:
    """Brings database and static files up to date, and loads the demo. Raises StartError."""
    try:
        call_command("check", stdout=io.StringIO())  # warnings still go to standard error
        call_command("migrate", interactive=False, verbosity=0)
        collecting.collect(data.collected)
    except (CommandError, DatabaseError, ImproperlyConfigured, ValueError) as error:
        raise StartError(str(error)) from error
    _make_admin()
    if settings.DEMO:
        _load_demo(data, samples)


def _make_admin() -> None:
    """Makes a first administrator. Its password is shown now and never again."""
    users = django.apps.apps.get_model(settings.AUTH_USER_MODEL).objects
    if users.filter(is_superuser=True).exists():
        return
    password = secrets.token_urlsafe(12)
    users.create(username="admin", password=make_password(password), is_staff=True, is_superuser=True)
    print(f"Administrator: admin, password: {password} (shown only this once; sign in at /admin/)")


def _load_demo(data: DataDirectory, samples: str) -> None:
    """Loads what was never loaded here before. An admin may have deleted some of it."""
    try:
        call_command("demo", once=data.demo_loaded)
        call_command("demo_feeds", once=data.demo_loaded, samples=samples)
    except (CommandError, DatabaseError, OSError) as error:
        print(f"The demo data could not be loaded: {error}")


def _plan(data: DataDirectory, runtime: RuntimeDirectory, tools: dict[str, str], waiting: Elsewhere) -> Plan:
    return Plan(
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
        launcher=starting.launcher("TERM"),
        worker_launcher=starting.launcher("KILL"),
        idle=starting.idle(),
        listening=tuple(filter(None, (f"{settings.LISTEN}:{settings.PORT}", waiting.listen))),
    )


def _elsewhere() -> Elsewhere:
    """Where clients wait, if not at the site's own address. Raises StartError."""
    found = facing.waits()
    if found.listen:
        starting.require_free_port(*found.address, setting="RETRY_LISTEN")
    return found


def _traffic() -> list[str]:
    """What supervisord has to know to keep the log of traffic bounded, where there is one."""
    if not settings.OBSERVE:
        return []
    return [str(settings.TRAFFIC_LOG), str(settings.TRAFFIC_LOG_MAX_BYTES), str(settings.NGINX_PID_FILE)]


def _announce(data: DataDirectory) -> None:
    """Leaves a child that says when the site is ready. supervisord could not: it owns no terminal."""
    print(f"Starting Tarry on {_address()} (logs: {data.logs})", flush=True)
    subprocess.Popen([*starting.launcher("TERM"), sys.executable, "-m", "project.announce", _address(), str(data.logs)])


def _address() -> str:
    """Where this machine reaches the site. Behind a proxy the public address is another."""
    everywhere = settings.LISTEN in {"0.0.0.0", "[::]"}  # noqa: S104  compared, not bound
    return f"http://{'127.0.0.1' if everywhere else settings.LISTEN}:{settings.PORT}"


if __name__ == "__main__":
    main()
