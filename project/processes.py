"""The processes of one machine, with their commands, and supervisord's configuration for them. Starts none."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .paths import BASE_DIR, DataDirectory, RuntimeDirectory

# Painting may take all processors. Answers come first, then painting for waiting clients, then refreshing stale
# content. Pre-warming gets only idle processors (sched(7)): a process that is merely niced keeps its processor for a
# slice of time when others wake up.
PAINT_PRIORITY, REFRESH_PRIORITY, WARM_PRIORITY = ("--nice", "5"), ("--nice", "10"), ("--idle",)

# For processes that answer no requests. System checks ran at the start.
WORKER_ENVIRONMENT: Mapping[str, str] = {"TARRY_INSTANCE": "worker", "CELERY_SKIP_CHECKS": "1"}


ROLES = ("state", "cache", "front", "main", "retry", "paint", "fetch", "work", "beat")
"""What a machine can do for the site. The servers `state` and `cache` are started where the site has none elsewhere."""

EXPORTER = "metrics"
"""A process of no role: it answers `/metrics` where METRICS_LISTEN is set."""


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """The processes of a machine: by its roles, and so many of each."""

    python: str
    redis_server: str
    nginx: str
    data: DataDirectory
    runtime: RuntimeDirectory
    roles: tuple[str, ...] = ROLES
    machine_queue: str = "work.here"
    small: bool = False
    own_state: bool = True
    own_cache: bool = True
    main_listen: str = ""
    retry_listen: str = ""
    metrics_listen: str = ""
    state_max_bytes: int = 1024 * 1024 * 1024
    state_rewrite_bytes: int = 64 * 1024 * 1024
    cache_max_bytes: int = 256 * 1024 * 1024
    paint_workers: int = 2
    refresh_workers: int = 1
    warm_workers: int = 1
    work_workers: int = 1
    fetchers: int = 1
    retry_timeout_seconds: float = 25
    launcher: tuple[str, ...] = ()
    listening: tuple[str, ...] = ()
    hot_is_emptied: bool = False
    """Tells whether nginx starts with an empty hot cache: it counts an old one only after a minute."""


@dataclass(frozen=True, slots=True)
class SupervisedProcess:
    """One supervised process. Lower priorities start first and stop last. `workers` of it take from each of `queues`.

    Groups stop one after the other: the site's own processes before the front, the front before the stores.
    """

    name: str
    role: str
    command: tuple[str, ...]
    priority: int
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_wait_seconds: int = 10
    group: str = "site"
    queues: tuple[str, ...] = ()
    workers: int = 1


def list_processes(plan: ProcessPlan) -> list[SupervisedProcess]:
    workers = _small_workers if plan.small else _workers
    makers = (_redis_servers, _instances, workers, _fetchers, _fronts, _exporters)
    return [process for make in makers for process in make(plan) if process.role in (*plan.roles, EXPORTER)]


def _redis_servers(plan: ProcessPlan) -> Iterator[SupervisedProcess]:
    if plan.own_state:
        rewrite = ("--auto-aof-rewrite-min-size", str(plan.state_rewrite_bytes))
        kept = ("--appendonly", "yes", "--appendfsync", "everysec", *rewrite)
        # Each change of a compact sorted set reads its scores from text one by one. Redis 6 knows this name alone.
        sets = ("--zset-max-ziplist-entries", "16")
        state = ("--maxmemory", str(plan.state_max_bytes), "--maxmemory-policy", "noeviction", *sets, *kept)
        yield _redis_server(plan, "state", plan.data.state, *state)
    if plan.own_cache:
        limit = ("--maxmemory", str(plan.cache_max_bytes), "--maxmemory-policy", "allkeys-lru", "--appendonly", "no")
        yield _redis_server(plan, "cache", plan.runtime.root, *limit)


def _redis_server(plan: ProcessPlan, name: str, directory: Path, *options: str) -> SupervisedProcess:
    """The server, with its configuration for listening: a password in a command would be seen by all users."""
    socket = ("--unixsocket", str(plan.runtime.socket(name)), "--unixsocketperm", "700")
    configured = (plan.redis_server, str(plan.runtime.redis_configuration(name)))
    command = (*plan.launcher, *configured, *socket, "--dir", str(directory), "--save", "", *options)
    return SupervisedProcess(name, name, command, priority=10, group="stores")


def redis_configuration(listen: str, password: str) -> str:
    """The text of a Redis server's file: where it listens besides its socket, and for whom."""
    host, _, port = listen.rpartition(":")
    lines = [f"bind {host.strip('[]')}", f"port {port}", "tcp-keepalive 10"] if listen else ["port 0"]
    if password:
        escaped = password.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'requirepass "{escaped}"')
    return "\n".join([*lines, ""])


def _instances(plan: ProcessPlan) -> Iterator[SupervisedProcess]:
    gunicorn = _program(plan, "gunicorn", "--config", "python:project.gunicorn")
    retry_seconds = int(plan.retry_timeout_seconds) + 10
    for name, application, listen, priority, stop_wait_seconds in (
        ("main", "project.wsgi:application", plan.main_listen, 30, 15),
        ("retry", "retry.asgi:application", plan.retry_listen, 40, retry_seconds),
    ):
        addresses = filter(None, (f"unix:{plan.runtime.socket(name)}", listen))
        command = (*gunicorn, *(part for address in addresses for part in ("--bind", address)), application)
        environment = {"TARRY_INSTANCE": name}
        yield SupervisedProcess(name, name, command, priority, environment, stop_wait_seconds=stop_wait_seconds)


def _workers(plan: ProcessPlan) -> Iterator[SupervisedProcess]:
    yield _painter(plan, "paint-now", "paint.now,paint.pages", plan.paint_workers, PAINT_PRIORITY)
    yield _painter(plan, "paint-refresh", "paint.refresh", plan.refresh_workers, REFRESH_PRIORITY)
    yield _painter(plan, "paint-warm", "paint.warm", plan.warm_workers, WARM_PRIORITY)
    yield _worker(plan, "work", f"work,{plan.machine_queue}", plan.work_workers)
    yield _beat(plan)


def _beat(plan: ProcessPlan) -> SupervisedProcess:
    command = _program(plan, "project.celery_program", "beat", "--pidfile=")
    return SupervisedProcess("beat", "beat", command, priority=60, environment=WORKER_ENVIRONMENT)


def _small_workers(plan: ProcessPlan) -> Iterator[SupervisedProcess]:
    yield _painter(plan, "paint-now", "paint.now,paint.pages,paint.refresh,paint.warm", 1, PAINT_PRIORITY)
    has_beat = {"work", "beat"} <= set(plan.roles)
    options = ("--pool", "threads", *(["--beat-thread"] if has_beat else []))
    yield _worker(plan, "work", f"work,{plan.machine_queue}", 2, *options)
    if not has_beat:
        yield _beat(plan)


# Without supervisord `state` is gone: a task would wait for it, and TERM for the task.
_ENDED_AT_ONCE = ("--end", "KILL")


def _painter(
    plan: ProcessPlan, name: str, queues: str, concurrency: int, priority: tuple[str, ...]
) -> SupervisedProcess:
    """Painters, which finish their tasks on TERM. A slower task is killed, and its work swept later."""
    program = (plan.python, "-m", "project.program", *_ENDED_AT_ONCE, *priority, "project.painters")
    command = (*program, "--queues", queues, "--concurrency", str(concurrency))
    listed = tuple(queues.split(","))
    return SupervisedProcess(name, "paint", command, 50, WORKER_ENVIRONMENT, queues=listed, workers=concurrency)


def _worker(plan: ProcessPlan, name: str, queues: str, concurrency: int, *options: str) -> SupervisedProcess:
    command = (
        *(plan.python, "-m", "project.program", *_ENDED_AT_ONCE),
        *("project.celery_program", "worker"),
        *("--queues", queues, "--concurrency", str(concurrency), "--hostname", f"{name}@%h"),
        *("--without-gossip", "--without-mingle", *options),
    )
    # Celery finishes its tasks on TERM; a slower task is killed with its pool, and its work swept later.
    listed = tuple(queues.split(","))
    return SupervisedProcess(name, name, command, 50, WORKER_ENVIRONMENT, queues=listed, workers=concurrency)


def _fetchers(plan: ProcessPlan) -> Iterator[SupervisedProcess]:
    command = _program(plan, "manage", "fetch", "--skip-checks")
    for number in range(1, plan.fetchers + 1):
        name = "fetch" if number == 1 else f"fetch-{number}"
        yield SupervisedProcess(name, "fetch", command, 50, WORKER_ENVIRONMENT, stop_wait_seconds=15)


def _fronts(plan: ProcessPlan) -> Iterator[SupervisedProcess]:
    directory = plan.runtime.nginx
    nginx = (plan.nginx, "-e", "stderr", "-c", str(directory / "nginx.conf"), "-p", str(directory))
    places = (plan.runtime.nginx_pid, plan.runtime.socket("front"), plan.data.hot)
    clearing = ("-m", "project.nginx_start", *map(str, places))
    emptied = ("--empty",) if plan.hot_is_emptied else ()
    command = (*plan.launcher, plan.python, *clearing, *emptied, *plan.listening, "--", *nginx)
    yield SupervisedProcess("nginx", "front", command, priority=20, group="front")


def _exporters(plan: ProcessPlan) -> Iterator[SupervisedProcess]:
    if plan.metrics_listen:
        options = ("--no-control-socket", "--threads", "2", "--log-level", "warning", "--bind", plan.metrics_listen)
        command = _program(plan, "gunicorn", *options, "project.exporter:application")
        yield SupervisedProcess(EXPORTER, EXPORTER, command, priority=60)


def _program(plan: ProcessPlan, *command: str) -> tuple[str, ...]:
    """The command of a program in Python, which supervisord forks (`program`)."""
    return (plan.python, "-m", "project.program", "--end", "TERM", *command)


LOG_MAX_BYTES = 10_000_000
LOG_BACKUPS = 2


def count_log_files(processes: Sequence[SupervisedProcess]) -> int:
    """Counts the files that the logs of these processes and of supervisord may have."""
    return (LOG_BACKUPS + 1) * (len(processes) + 1)


def supervisord_configuration(
    processes: Sequence[SupervisedProcess], *, logs: Path, runtime: Path, user: str, log_max_bytes: int = LOG_MAX_BYTES
) -> str:
    """The text of supervisord.conf. `user` is empty unless root runs it: supervisord then wants it named."""
    programs = [_program_section(process, logs, log_max_bytes) for process in processes]
    own = _supervisord_section(logs, runtime, user, log_max_bytes)
    return "\n".join([own, *programs, *_group_sections(processes)])


def _supervisord_section(logs: Path, runtime: Path, user: str, log_max_bytes: int) -> str:
    socket = runtime / "supervisor.sock"
    own = _section(
        "supervisord",
        **{"nodaemon": "true", "silent": "true", "user": user, "directory": BASE_DIR, "childlogdir": logs},
        logfile=logs / "supervisord.log",
        logfile_maxbytes=log_max_bytes,
        logfile_backups=LOG_BACKUPS,
        pidfile=runtime / "supervisord.pid",
    )
    server, client = _section("unix_http_server", file=socket, chmod="0700"), f"unix://{socket}"
    factory = {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"}
    return "\n".join(
        [own, server, _section("supervisorctl", serverurl=client), _section("rpcinterface:supervisor", **factory)]
    )


def _group_sections(processes: Sequence[SupervisedProcess]) -> Iterator[str]:
    """One group per name: supervisord stops group after group, and all members of a group at once."""
    for name in dict.fromkeys(process.group for process in processes):
        members = [process for process in processes if process.group == name]
        first = min(process.priority for process in members)
        yield _section(f"group:{name}", programs=",".join(process.name for process in members), priority=first)


def _program_section(process: SupervisedProcess, logs: Path, log_max_bytes: int) -> str:
    return _section(
        f"program:{process.name}",
        command=shlex.join(process.command),
        directory=BASE_DIR,
        priority=process.priority,
        autorestart="true",
        startsecs=1,
        startretries=1000,  # a missing part, as a full disk, may come back
        stopwaitsecs=process.stop_wait_seconds,
        killasgroup="true",
        redirect_stderr="true",
        stdout_logfile=logs / f"{process.name}.log",
        stdout_logfile_maxbytes=log_max_bytes,
        stdout_logfile_backups=LOG_BACKUPS,
        environment=",".join(f'{name}="{value}"' for name, value in process.environment.items()),
    )


def _section(name: str, **options: object) -> str:
    lines = [f"{key} = {str(value).replace('%', '%%')}" for key, value in options.items() if value != ""]
    return "\n".join([f"[{name}]", *lines, "", ""])
