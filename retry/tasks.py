"""Celery's entry to the sweeper."""

from celery import shared_task

from . import sweeping


@shared_task(name="retry.sweep", ignore_result=True)
def sweep() -> None:
    sweeping.sweep()
    sweeping.age()
