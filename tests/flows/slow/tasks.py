"""The preparation of slow content. It notes its executions where tests can count them."""

import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from unittest.mock import patch

from celery import shared_task
from django.conf import settings

from retry import contents
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.worker import prepare

from .events import Diary
from .slow_content import SlowContent


@shared_task(name="slow.prepare", ignore_result=True)
def prepare_slow(work_key: str, token: int, *arguments: str | float) -> None:
    wanted = SlowContent(*arguments)  # type: ignore[arg-type]  # as SlowContent.arguments
    if wanted.behaviour == "evict":
        with patch.object(contents, "SERVABLE_SECONDS", 0):  # with fresh=0&stale=0 it is stored and gone in one step
            prepare(work_key, token, partial(make, wanted, token))
    else:
        prepare(work_key, token, partial(make, wanted, token))


def make(wanted: SlowContent, token: int) -> Mapping[str, Prepared]:
    """The content, or the mishap, that was wished for."""
    diary = Diary(settings.DATA_DIR / "slow", wanted.name)
    execution = diary.note("start", token)
    _pass_time(wanted.seconds, burn=wanted.behaviour == "burn")
    if wanted.gated:
        diary.wait_at_gate()
    _misbehave(wanted.behaviour, execution)
    body = wanted.numbered_body(execution) if wanted.behaviour == "numbered" else wanted.body
    diary.note("finish", token)
    content_type = "image/png" if wanted.behaviour in {"image", "picture"} else "text/plain; charset=utf-8"
    return {f"slow:{wanted.name}": Prepared(body, content_type, wanted.fresh, wanted.stale, version=wanted.version)}


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
        case "unavailable":
            raise PreparationError("It is not there now.", status=503, retry_seconds=600)
        case "missing":
            raise PreparationError("There is no such thing.", status=404)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "die-once" if execution == 1:
            os.kill(os.getpid(), signal.SIGKILL)
