"""The preparation of slow content. It notes its executions where tests can count them."""

import json
import os
import signal
import time
from collections.abc import Mapping
from functools import partial

import redis
from celery import shared_task
from django.conf import settings

from retry.contents import Prepared
from retry.errors import PreparationError
from retry.preparing import prepare
from tests.flows.slow.wishes import Wish

EVENTS = "slow-events:"


@shared_task(name="slow.prepare", ignore_result=True)
def prepare_slow(work_key: str, token: int, *arguments: str | float) -> None:
    prepare(work_key, token, partial(make, Wish(*arguments), token))  # type: ignore[arg-type]  # as Wish.arguments


def make(wish: Wish, token: int) -> Mapping[str, Prepared]:
    """The content, or the mishap, that was wished for."""
    execution = _note(wish.name, "start", token)
    _pass_time(wish.seconds, burn=wish.behaviour == "burn")
    _misbehave(wish.behaviour, execution)
    content = Prepared(wish.body, "text/plain; charset=utf-8", wish.fresh, wish.stale, version=wish.version)
    _note(wish.name, "finish", token)
    return {f"slow:{wish.name}": content}


def _pass_time(seconds: float, *, burn: bool) -> None:
    if not burn:
        time.sleep(seconds)
        return
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))


def _misbehave(behaviour: str, execution: int) -> None:
    match behaviour:
        case "raise":
            raise RuntimeError("the painter fell over")
        case "refuse":
            raise PreparationError("The origin refused.", status=502)
        case "missing":
            raise PreparationError("There is no such thing.", status=404)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die-once" if execution == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def _note(name: str, event: str, token: int) -> int:
    """Appends to the events of this name; returns how many of this kind there are."""
    server = redis.Redis.from_url(settings.REDIS_URL)
    entry = {"event": event, "token": token, "pid": os.getpid(), "time": time.time()}
    with server, server.pipeline() as pipeline:
        pipeline.rpush(EVENTS + name, json.dumps(entry))
        pipeline.incr(f"{EVENTS}{name}:{event}")
        return int(pipeline.execute()[1])
