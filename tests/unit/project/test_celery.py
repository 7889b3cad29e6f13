"""Celery's worker at a broker that fails."""

import logging
from unittest.mock import Mock

import pytest
import redis
from kombu import Connection, Queue
from kombu.transport.redis import QoS

import project.celery
from tests.conftest import RedisServers


def test_a_worker_takes_the_next_message_after_one_that_it_could_not_acknowledge(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.celery.app.conf.worker_prefetch_multiplier == 1
    socket = redis_servers.state.client.connection_pool.connection_kwargs["path"]
    with Connection(f"redis+socket://{socket}") as broker, broker.channel() as channel:
        queue = Queue("acknowledged", channel=channel)
        queue.declare()
        producer, taken = broker.Producer(), []
        for number in range(2):
            producer.publish(number, routing_key=queue.name)
        consumer = broker.Consumer([queue], callbacks=[lambda _, message: taken.append(message)])
        consumer.qos(prefetch_count=1)
        with consumer:
            broker.drain_events(timeout=5)
            with monkeypatch.context() as away:
                away.setattr(QoS, "_remove_from_indices", Mock(side_effect=redis.TimeoutError))
                taken[0].ack_log_error(logging.getLogger("test"), broker.connection_errors)
            broker.drain_events(timeout=5)
    assert [message.payload for message in taken] == [0, 1]
