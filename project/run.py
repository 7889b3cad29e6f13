"""`python -m project.run`: prepares this machine, then runs all its processes in the foreground.

nginx and redis-server must be installed where they run: setup.sh does that.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict

from django.conf import settings
from django.core.checks import CheckMessage

from resources import machines
from resources.disk.shares import DiskShares

from . import checks, disk, nginx_config, nginx_values, preflight, processes, release, supervisor
from .environment import remember_environment
from .paths import BASE_DIR, DataDirectory, RuntimeDirectory
from .preflight import StartError
from .processes import ProcessPlan, SupervisedProcess

STORES = frozenset({"state", "cache"})
"""A machine with no other roles needs no release, no database, and no setting that the others share."""


def main() -> None:
    """Starts the site. On success this process becomes supervisord."""
    with release.explain_errors("Tarry cannot start"):
        command = prepare_run()
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")  # each thread of Python would keep freed memory of its own
    os.execv(command[0], command)  # noqa: S606  a list of our own


def prepare_run() -> list[str]:
    """Makes everything that the processes need. Returns supervisord's command. Raises StartError."""
    data, runtime = release.find_directories()
    _clear_directories(data, runtime)
    release.load_settings(data, runtime)
    plan = _make_plan(data, runtime)
    _bound_disk(plan)
    _require_quiet(plan)
    samples = offer_samples() if "front" in plan.roles else ""
    if set(settings.ROLES) <= STORES:
        release.check_settings()
    elif settings.RELEASE:
        _refuse(checks.compare_settings(checks.digest_settings()))
        release.release_site(data, samples)
    else:
        release.await_release(data)
    _write_machine(plan, {} if set(settings.ROLES) <= STORES else _compare_settings())
    files = preflight.raise_file_limit()
    if "front" in plan.roles:
        nginx_config.write_configuration(nginx_values.front_config(data, runtime, files=files, samples=samples))
    _write_redis_configurations(plan)
    _write_supervisord_configuration(plan)
    remember_environment(data.environment, os.environ, dir(settings))
    _announce(plan)
    draining = [str(runtime.draining), str(settings.DRAIN_SECONDS)]
    given = [str(data.hot), *draining, str(runtime.machine), *_traffic_arguments(), "-c", str(runtime.supervisor)]
    return [sys.executable, "-m", "project.supervisor", *given]


def _clear_directories(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    """Makes the directories, and removes what a killed run left. Raises StartError while another run holds them."""
    preflight.make_directories(data, runtime)
    preflight.hold_lock(data.lock)
    data.environment.unlink(missing_ok=True)  # this run has its own environment
    data.disk_shares.unlink(missing_ok=True)  # and measures its data anew
    runtime.draining.unlink(missing_ok=True)
    preflight.empty_directory(data.uploads)
    supervisor.remove_unfinished_files(data.hot)
    preflight.empty_directory(runtime.metrics)


def _bound_disk(plan: ProcessPlan) -> None:
    """Begins the account of this machine's disk, or ends it where there is no bound. Tells of a full disk."""
    if settings.DISK_SHARES is None:
        disk.end_account(plan.data)
        return
    disk.trim_logs(plan.data.logs, _log_bytes(processes.list_processes(plan)))
    use = disk.begin_account(plan.data, settings.DISK_SHARES, settings.DISK_PLACES)
    if use.trouble:
        hint = "Raise DISK_MAX_BYTES, or remove data: docs/operations.md, The disk."
        print(f"Warning: this machine: {use.trouble}. {hint} (project.W003)", file=sys.stderr)


def _log_bytes(supervised: Sequence[SupervisedProcess]) -> int:
    """The largest file of a process' log."""
    shares: DiskShares | None = settings.DISK_SHARES
    bounded = shares.process_log_bytes(processes.count_log_files(supervised)) if shares else processes.LOG_MAX_BYTES
    return min(processes.LOG_MAX_BYTES, bounded)


def _require_quiet(plan: ProcessPlan) -> None:
    """Requires that nothing else listens where this site will. Raises StartError."""
    preflight.require_quiet(plan.runtime)
    for setting in _listening_settings(plan):
        host, _, port = getattr(settings, setting).rpartition(":")
        preflight.require_free_port(host, int(port), setting=setting)
    if "front" not in plan.roles:
        return
    preflight.require_free_port(settings.LISTEN, settings.PORT)
    waiting = nginx_values.waiting_site()
    if waiting.listen:
        preflight.require_free_port(*waiting.address, setting="RETRY_LISTEN")


def _compare_settings() -> machines.Digests:
    """Returns digests of the settings that all machines share. Raises StartError if another machine has others."""
    digests = checks.digest_settings()
    checks.await_earlier_start()
    checks.await_start()
    found = checks.compare_machines(digests)
    _refuse(found)
    for one in found:
        print(f"Warning: {one.msg} {one.hint} ({one.id})", file=sys.stderr)
    return digests


def _refuse(found: Sequence[CheckMessage]) -> None:
    """Raises StartError for errors."""
    if errors := [f"{one.msg} {one.hint} ({one.id})" for one in found if one.is_serious()]:
        raise StartError(" ".join(errors))


def _write_machine(plan: ProcessPlan, digests: machines.Digests) -> None:
    """Writes what supervisord tells of this machine in `state`, and where that is."""
    supervised = [
        {"name": one.name, "role": one.role, "queues": one.queues, "workers": one.workers}
        for one in processes.list_processes(plan)
    ]
    facts = {
        "installation": settings.INSTALLATION,
        "version": preflight.read_version(BASE_DIR),
        "roles": plan.roles,
        "processes": supervised,
        "digests": digests,
    }
    given = {"machine": settings.MACHINE, "data": str(plan.data.root), "state": settings.REDIS_URL, "facts": facts}
    if shares := settings.DISK_SHARES:
        account = str(settings.DISK_ACCOUNT)
        given["disk"] = {"places": settings.DISK_PLACES.to_json(), "shares": asdict(shares), "account": account}
    plan.runtime.machine.unlink(missing_ok=True)
    plan.runtime.machine.touch(mode=0o600)  # the address may have a password
    plan.runtime.machine.write_text(json.dumps(given))


def _listening_settings(plan: ProcessPlan) -> list[str]:
    """The settings of this machine's listeners for other machines. Raises StartError for one that is no address."""
    started = {"main": "main" in plan.roles, "retry": "retry" in plan.roles}
    started |= {"state": plan.own_state, "cache": plan.own_cache, "metrics": bool(plan.metrics_listen)}
    found = [name for role, name in checks.LISTENERS.items() if started[role] and getattr(settings, name)]
    for name in found:
        if not nginx_config.is_address(getattr(settings, name)):
            raise StartError(f"{name} is {getattr(settings, name)!r}; it must be an address and a port.")
    return found


def _write_redis_configurations(plan: ProcessPlan) -> None:
    for name in ("state", "cache"):
        listen, password = getattr(settings, f"{name.upper()}_LISTEN"), getattr(settings, f"{name.upper()}_PASSWORD")
        plan.runtime.redis_configuration(name).write_text(processes.redis_configuration(listen, password))


def _write_supervisord_configuration(plan: ProcessPlan) -> None:
    user = "root" if os.getuid() == 0 else ""
    supervised, runtime = processes.list_processes(plan), plan.runtime
    text = processes.supervisord_configuration(
        supervised, logs=plan.data.logs, runtime=runtime.root, user=user, log_max_bytes=_log_bytes(supervised)
    )
    runtime.supervisor.write_text(text)


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


def _make_plan(data: DataDirectory, runtime: RuntimeDirectory) -> ProcessPlan:
    """Plans the processes of this machine. Raises StartError for a program that is missing."""
    own_state = "state" in settings.ROLES and checks.is_own_store("state")
    own_cache = "cache" in settings.ROLES and checks.is_own_store("cache")
    return ProcessPlan(
        python=sys.executable,
        redis_server=preflight.find_tool("redis-server") if own_state or own_cache else "",
        nginx=preflight.find_tool("nginx") if "front" in settings.ROLES else "",
        data=data,
        runtime=runtime,
        roles=tuple(settings.ROLES),
        machine_queue=settings.MACHINE_QUEUE,
        small=settings.SMALL,
        own_state=own_state,
        own_cache=own_cache,
        main_listen=settings.MAIN_LISTEN,
        retry_listen=settings.RETRY_INSTANCE_LISTEN,
        metrics_listen=settings.METRICS_LISTEN if settings.OBSERVE else "",
        state_max_bytes=settings.STATE_MAX_BYTES,
        **({"state_rewrite_bytes": settings.DISK_SHARES.rewrite_bytes} if settings.DISK_SHARES else {}),
        cache_max_bytes=settings.CACHE_MAX_BYTES,
        paint_workers=settings.PAINT_WORKERS,
        refresh_workers=settings.REFRESH_WORKERS,
        warm_workers=settings.WARM_WORKERS,
        work_workers=settings.WORK_WORKERS,
        fetchers=settings.FETCHERS,
        retry_timeout_seconds=settings.DEFAULT_RETRY_TIMEOUT,
        hot_is_emptied=settings.DISK_SHARES is not None,
        launcher=preflight.launcher_prefix("TERM"),
        listening=tuple(filter(None, (f"{settings.LISTEN}:{settings.PORT}", nginx_values.waiting_site().listen))),
    )


def _traffic_arguments() -> list[str]:
    if not settings.OBSERVE:
        return []
    return [str(settings.TRAFFIC_LOG), str(settings.TRAFFIC_LOG_MAX_BYTES), str(settings.NGINX_PID_FILE)]


def _announce(plan: ProcessPlan) -> None:
    """Starts a child that prints when the site is ready. supervisord cannot: it owns no terminal."""
    if "front" not in plan.roles:
        print(f"Starting {', '.join(plan.roles)} of Tarry (logs: {plan.data.logs})", flush=True)
        return
    everywhere = settings.LISTEN in {"0.0.0.0", "[::]"}  # noqa: S104  compared, not bound
    # Behind a proxy the public address is another.
    address = f"http://{'127.0.0.1' if everywhere else settings.LISTEN}:{settings.PORT}"
    print(f"Starting Tarry on {address} (logs: {plan.data.logs})", flush=True)
    announce = [sys.executable, "-m", "project.announce", address, str(plan.data.logs), settings.FEEDS_PUSH_NOTE]
    subprocess.Popen([*preflight.launcher_prefix("TERM"), *announce])


if __name__ == "__main__":
    main()
