"""Which processes one machine runs, and how each is started and stopped. Starts none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .paths import DataDirectory, RuntimeDirectory

# Painting may take all processors. What is there already is answered first, then what is waited for is painted,
# then what takes the place of stale content; what somebody may want only where nobody else has a use for a processor:
# a process that is merely niced keeps it for a slice of time when others wake up.
PAINTING, REFRESHING = ("nice", "-n", "5"), ("nice", "-n", "10")


# Of what answers nobody. What checks would import takes memory for good; they were run before anything was started.
WORKER: Mapping[str, str] = {"TARRY_INSTANCE": "worker", "CELERY_SKIP_CHECKS": "1"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What the list of processes depends on."""

    python: str
    redis_server: str
    nginx: str
    data: DataDirectory
    runtime: RuntimeDirectory
    small: bool = False
    own_state: bool = True
    own_cache: bool = True
    state_max_bytes: int = 1024 * 1024 * 1024
    cache_max_bytes: int = 256 * 1024 * 1024
    paint_workers: int = 2
    retry_timeout_seconds: float = 25
    launcher: tuple[str, ...] = ()
    worker_launcher: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    listening: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """One supervised process. Lower priorities start first and stop last.

    Groups stop one after the other: what works before the front, the front before the stores.
    """

    name: str
    command: tuple[str, ...]
    priority: int
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_signal: str = "TERM"
    stop_wait_seconds: int = 10
    group: str = "site"


def processes(plan: Plan) -> list[Process]:
    """All processes of the plan, in the order of their start."""
    return [
        *_redis_servers(plan),
        *_instances(plan),
        *(_small_workers(plan) if plan.small else _workers(plan)),
        _fetcher(plan),
        _nginx(plan),
    ]


def _redis_servers(plan: Plan) -> Iterator[Process]:
    if plan.own_state:
        kept = ("--appendonly", "yes", "--appendfsync", "everysec")
        state = ("--maxmemory", str(plan.state_max_bytes), "--maxmemory-policy", "noeviction", *kept)
        yield Process("state", _redis(plan, "state", str(plan.data.state), *state), priority=10, group="stores")
    if plan.own_cache:
        limit = ("--maxmemory", str(plan.cache_max_bytes), "--maxmemory-policy", "allkeys-lru", "--appendonly", "no")
        yield Process("cache", _redis(plan, "cache", str(plan.runtime.root), *limit), priority=10, group="stores")


def _redis(plan: Plan, name: str, directory: str, *options: str) -> tuple[str, ...]:
    socket = ("--port", "0", "--unixsocket", str(plan.runtime.socket(name)), "--unixsocketperm", "700")
    return (*plan.launcher, plan.redis_server, *socket, "--dir", directory, "--save", "", *options)


def _instances(plan: Plan) -> Iterator[Process]:
    gunicorn = (*plan.launcher, plan.python, "-m", "gunicorn", "--config", "python:project.gunicorn")
    graceful = int(plan.retry_timeout_seconds) + 5
    yield Process(
        "main",
        (*gunicorn, "--bind", f"unix:{plan.runtime.socket('main')}", "project.wsgi:application"),
        priority=30,
        environment={"TARRY_INSTANCE": "main"},
        stop_wait_seconds=15,
    )
    yield Process(
        "retry",
        (*gunicorn, "--bind", f"unix:{plan.runtime.socket('retry')}", "retry.asgi:application"),
        priority=40,
        environment={"TARRY_INSTANCE": "retry"},
        stop_wait_seconds=graceful + 5,
    )


def _workers(plan: Plan) -> Iterator[Process]:
    yield _worker(plan, "paint-now", ("paint.now",), plan.paint_workers, scheduled=PAINTING)
    yield _worker(plan, "paint-refresh", ("paint.refresh",), 1, scheduled=REFRESHING)
    yield _worker(plan, "paint-warm", ("paint.warm",), 1, scheduled=plan.idle)
    yield _worker(plan, "work", ("work",), 1)
    beat = (*plan.launcher, plan.python, "-m", "celery", "-A", "project", "--quiet", "beat", "--pidfile=")
    yield Process("beat", beat, priority=60, environment=WORKER)


def _small_workers(plan: Plan) -> Iterator[Process]:
    yield _worker(plan, "paint-now", ("paint.now", "paint.refresh", "paint.warm"), 1, scheduled=PAINTING)
    yield _worker(plan, "work", ("work",), 2, "--pool", "threads", "--beat")


def _worker(
    plan: Plan, name: str, queues: tuple[str, ...], concurrency: int, *options: str, scheduled: tuple[str, ...] = ()
) -> Process:
    command = (
        *plan.worker_launcher,  # with supervisord its `state` is gone: a task would wait for it, and TERM for the task
        *scheduled,
        *(plan.python, "-m", "celery", "-A", "project", "--quiet", "worker"),
        *("--queues", ",".join(queues), "--concurrency", str(concurrency), "--hostname", f"{name}@%h"),
        *("--without-gossip", "--without-mingle", *options),
    )
    # Celery finishes its tasks on TERM; what takes longer is killed with its pool, and swept later.
    return Process(name, command, priority=50, environment=WORKER)


def _fetcher(plan: Plan) -> Process:
    fetch = (*plan.launcher, plan.python, "manage.py", "fetch", "--skip-checks")
    return Process("fetch", fetch, priority=50, environment=WORKER, stop_wait_seconds=15)


def _nginx(plan: Plan) -> Process:
    directory = plan.runtime.nginx
    nginx = (plan.nginx, "-e", "stderr", "-c", str(directory / "nginx.conf"), "-p", str(directory))
    clearing = (plan.python, "-m", "project.clearing", str(directory / "nginx.pid"), str(plan.runtime.socket("front")))
    command = (*plan.launcher, *clearing, *plan.listening, "--", *nginx)
    return Process("nginx", command, priority=20, group="front")
