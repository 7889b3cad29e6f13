"""Messages for Celery's queues, as this site writes them and as Celery reads and writes them."""

import json

import pytest
from celery import current_app
from celery.worker.request import Request
from kombu.transport.redis import Channel
from kombu.transport.virtual import Message as KombuMessage

from retry.messages import Message, read_message, write_message
from tests.conftest import RedisServers

ARGUMENTS = ("w:1", 1795263648251234, "naïve", 2.5)


def test_celery_reads_a_message_as_the_call_of_its_task() -> None:
    @current_app.task(name="t")
    def take(*_: object) -> None: ...

    payload = json.loads(write_message("t", ARGUMENTS, "paint.now"))
    channel = Channel.__new__(Channel)
    request = Request(KombuMessage(payload, channel=channel), app=take.app, on_ack=print)
    args, kwargs, _ = request._payload  # type: ignore[attr-defined]
    assert (request.name, tuple(args), kwargs) == ("t", ARGUMENTS, {})
    assert request.delivery_info["routing_key"] == "paint.now"
    assert request.ignore_result


@pytest.mark.usefixtures("redis_servers")
def test_a_message_of_celery_is_read(redis_servers: RedisServers) -> None:
    current_app.send_task("t", args=ARGUMENTS, queue="paint.now", ignore_result=True)
    [text] = redis_servers.state.client.lrange("paint.now", 0, -1)
    assert read_message(text) == Message("t", ARGUMENTS, {})


def test_own_messages_are_read() -> None:
    assert read_message(write_message("t", ARGUMENTS, "paint.now")) == Message("t", ARGUMENTS, {})


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"body": "W10="}', b'{"body": 1, "headers": {"task": "t"}}'])
def test_what_is_no_message_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="no message of Celery"):
        read_message(text)
