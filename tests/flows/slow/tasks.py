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
from .wishes import Wish


@shared_task(name="slow.prepare", ignore_result=True)
def prepare_slow(work_key: str, token: int, *arguments: str | float) -> None:
    wish = Wish(*arguments)  # type: ignore[arg-type]  # as Wish.arguments
    if wish.behaviour == "evict":
        with patch.object(contents, "SERVABLE_SECONDS", 0):  # with fresh=0&stale=0 it is stored and gone in one step
            prepare(work_key, token, partial(make, wish, token))
    else:
        prepare(work_key, token, partial(make, wish, token))


def make(wish: Wish, token: int) -> Mapping[str, Prepared]:
    """The content, or the mishap, that was wished for."""
    diary = Diary(settings.DATA_DIR / "slow", wish.name)
    execution = diary.note("start", token)
    _pass_time(wish.seconds, burn=wish.behaviour == "burn")
    if wish.gated:
        diary.wait_at_gate()
    _misbehave(wish.behaviour, execution)
    body = wish.numbered_body(execution) if wish.behaviour == "numbered" else wish.body
    diary.note("finish", token)
    content_type = "image/png" if wish.behaviour == "image" else "text/plain; charset=utf-8"
    return {f"slow:{wish.name}": Prepared(body, content_type, wish.fresh, wish.stale, version=wish.version)}


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
