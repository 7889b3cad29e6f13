"""The Celery application. Tasks live in the apps."""

import logging.config
import os
from typing import Any

from celery import Celery, signals
from django.conf import settings

from resources import parents

from . import workers
from .brokers import PATIENT

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("tarry")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@signals.setup_logging.connect
def _log_as_django_does(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)


@signals.celeryd_init.connect
@signals.beat_init.connect
def _wait_for_the_broker(**_: Any) -> None:
    """Workers and beat wait for the broker to come back. Web processes keep the fail-fast settings."""
    app.conf.update(
        broker_transport_options=PATIENT.transport_options,
        broker_connection_timeout=PATIENT.connection_timeout_seconds,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,  # a broker that refuses to write, as with a full disk, is away as well
        task_publish_retry=PATIENT.publish_retry,
    )


@signals.celeryd_init.connect
def _end_embedded_beat_with_its_worker(**_: Any) -> None:
    """Beat inside a worker is a process of its own: of a worker that is killed it would go on beside the next one's."""
    worker = os.getpid()
    signals.beat_embedded_init.connect(lambda **_: parents.end_with(worker), weak=False)


@signals.heartbeat_sent.connect
def _sign_in(sender: Any, **_: Any) -> None:
    workers.sign_in(list(app.amqp.queues.consume_from))
