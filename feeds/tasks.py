"""Celery tasks of feeds."""

from functools import partial

from celery import shared_task

from retry import preparing

from .composing.pages import prepared


@shared_task(name="feeds.render", ignore_result=True)
def render(work_key: str, token: int, address: str) -> None:
    """Renders one page of a feed or of a combination. Does not raise when that fails."""
    preparing.prepare(work_key, token, partial(prepared, address))
