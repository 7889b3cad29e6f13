"""The Celery application, and the limits of its broker connections.

Tasks live in the apps.
"""

import logging
import logging.config
import os
from contextlib import suppress
from functools import cache
from threading import Thread
from typing import Any

import redis
from celery import Celery, signals
from celery.loaders.base import BaseLoader
from django.conf import settings
from kombu.transport import virtual
from kombu.transport.redis import Channel, QoS, SentinelChannel

from resources import sandbox
from retry import stores
from retry.servers import SentinelConnection

from . import lane_workers, release, schedule

SILENT_SECONDS = 5
"""A connection to the broker that is silent for longer is given up: a worker asks once a second."""

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

SentinelChannel.connection_class = SentinelConnection


class ForgettingQoS(QoS):
    """Counts a message as acknowledged also when the broker cannot be told. The broker then hands it out again later.

    By Celery's own, the message would count as one in hand for ever. A worker that takes one at a time would take none
    (celery/celery#2415).
    """

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        except redis.RedisError:
            virtual.QoS.ack(self, delivery_tag)
            raise


Channel.QoS = ForgettingQoS

app = Celery("tarry", loader="app")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


class DefaultLoader(BaseLoader):
    """Loads the settings of Celery's default application, which a process has until it imports this module.

    Celery finds it by CELERY_LOADER. So other apps' tasks go to the site's broker in every command, and commands that
    send none do not load Celery.
    """

    def read_configuration(self, *_: str) -> dict[str, Any]:
        names = [name for name in dir(settings) if name.startswith("CELERY_")]
        return {name.removeprefix("CELERY_").lower(): getattr(settings, name) for name in names}


@signals.setup_logging.connect
def _log_as_django_does(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)


@signals.celeryd_init.connect
@signals.beat_init.connect
def _wait_for_the_broker(**_: Any) -> None:
    """Makes workers and beat wait for a lost broker. Web processes keep the fail-fast settings."""
    app.conf.update(
        broker_transport_options={
            "socket_connect_timeout": 5,
            "socket_timeout": SILENT_SECONDS,
            "health_check_interval": SILENT_SECONDS // 2,
            "socket_keepalive": True,
            "queue_order_strategy": _queue_order(),
            **settings.QUEUES_OPTIONS,
        },
        broker_connection_timeout=5,
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,  # a broker that refuses to write, as with a full disk, is away as well
        task_publish_retry=True,
    )


def _queue_order() -> str:
    """Returns the order of one worker's queues: in turn, but with SMALL=1 by name, as refreshes come after clients."""
    return "sorted" if settings.SMALL else "round_robin"


@signals.celeryd_init.connect
def _end_embedded_beat_with_its_worker(**_: Any) -> None:
    """Ends the beat process of a worker with it. A supervisord of the version before starts small sites' ones so."""
    worker = os.getpid()
    signals.beat_embedded_init.connect(lambda **_: sandbox.end_with_parent(worker), weak=False)


@signals.heartbeat_sent.connect
def _sign_in_worker(sender: Any, **_: Any) -> None:
    lane_workers.sign_in_queues(list(app.amqp.queues.consume_from))


@signals.worker_ready.connect
def _let_lost_ones_wait_again(**_: Any) -> None:
    """Has beat publish the scheduled tasks of this worker's queues: a killed worker may have taken their messages."""
    consumed = set(app.amqp.queues.consume_from)
    keys = [schedule.waiting_key(task, queue) for task, queue in _scheduled_tasks().items() if queue in consumed]
    if keys:
        with suppress(redis.RedisError):
            stores.fast_client("state").delete(*keys)


@signals.worker_ready.connect
def _adopt_learnt_keys(**_: Any) -> None:
    if settings.CELERY_TASK_DEFAULT_QUEUE in app.amqp.queues.consume_from:
        Thread(target=release.adopt_learnt_keys, daemon=True, name="adopt").start()


@signals.task_prerun.connect
def _let_the_next_one_wait(task: Any, **_: Any) -> None:
    """Has beat publish a scheduled task again: this message no longer waits."""
    if queue := _scheduled_tasks().get(task.name):
        with suppress(redis.RedisError):
            stores.fast_client("state").delete(schedule.waiting_key(task.name, queue))


@cache
def _scheduled_tasks() -> dict[str, str]:
    return {entry["task"]: entry["options"]["queue"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
