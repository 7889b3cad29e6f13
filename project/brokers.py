"""How processes talk to Celery's broker. Opens no connection."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Limits of one kind of process, as Celery's settings want them."""

    transport_options: dict[str, Any]
    connection_timeout_seconds: float
    publish_retry: bool


# A worker waits until the broker is back.
PATIENT = BrokerOptions(
    transport_options={
        "socket_connect_timeout": 5,
        "socket_timeout": 60,
        "socket_keepalive": True,
        "queue_order_strategy": "sorted",  # paint.now before paint.refresh before paint.warm, where one worker has more
    },
    connection_timeout_seconds=5,
    publish_retry=True,
)


def fail_fast(seconds: float) -> BrokerOptions:
    """For web processes, which must not wait: by default a silent broker would hold a publish for ever.

    While threads wait for it, others wait for a thread: a request takes up to twice this, and what Redis' other calls
    may take.
    """
    return BrokerOptions(
        transport_options={
            "socket_timeout": seconds,
            "socket_connect_timeout": seconds,
            "max_retries": 0,
            "retry_on_timeout": False,
        },
        connection_timeout_seconds=seconds,
        publish_retry=False,
    )


def broker_url(redis_url: str) -> str:
    """The same server in Celery's spelling: `unix:///a.sock?db=1` is `redis+socket:///a.sock?virtual_host=1`."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = dict(parse_qsl(parts.query)).get("db", "0")
    return f"redis+socket://{parts.path}?virtual_host={database}"
