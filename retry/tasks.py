"""The Celery task of the sweeper."""

from celery import shared_task

from . import worker


@shared_task(name="retry.sweep", ignore_result=True)
def sweep() -> None:
    worker.sweep_claims()
    worker.age_lanes()
