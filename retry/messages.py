"""Messages of Celery in its queues on Redis: their text, for any process that has no need of Celery itself. PURE.

Celery's protocol 2 (https://docs.celeryq.dev/en/stable/internals/protocol.html) in the envelope of kombu's transport.
kombu takes as long as a request of main to write one.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import urandom
from typing import Any

_EMBEDDED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
_UNUSED = dict.fromkeys(("shadow", "eta", "expires", "group", "parent_id", "stamps", "replaced_task_nesting"))


@dataclass(frozen=True, slots=True)
class Message:
    """The call of a task."""

    task: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]


def write_message(task: str, arguments: Sequence[str | int | float], queue: str) -> str:
    """Returns the text for the queue."""
    body = base64.b64encode(json.dumps([list(arguments), {}, _EMBEDDED]).encode()).decode()
    described = json.dumps(repr(list(arguments)))
    frame = _write_frame(task, queue).replace(_NAME, urandom(16).hex())
    return frame.replace(_BODY, body).replace(f'"{_DESCRIBED}"', described)


_NAME, _BODY, _DESCRIBED = "{name of the message}", "{its body}", "{its arguments}"


@lru_cache(maxsize=64)
def _write_frame(task: str, queue: str) -> str:
    """The text of all messages of the task in the queue, with places for the parts in which they differ."""
    headers = {
        **_UNUSED,
        **{"lang": "py", "task": task, "id": _NAME, "root_id": _NAME, "retries": 0, "timelimit": [None, None]},
        **{"argsrepr": _DESCRIBED, "kwargsrepr": "{}", "origin": "tarry", "ignore_result": True},
    }
    properties = {
        **{"correlation_id": _NAME, "reply_to": "", "delivery_mode": 2, "priority": 0, "body_encoding": "base64"},
        **{"delivery_info": {"exchange": "", "routing_key": queue}, "delivery_tag": _NAME},
    }
    message = {
        **{"body": _BODY, "content-encoding": "utf-8", "content-type": "application/json"},
        **{"headers": headers, "properties": properties},
    }
    return json.dumps(message)


def read_message(text: str | bytes) -> Message:
    """Reads a message of this or any other process. Raises ValueError for what is none."""
    try:
        message = json.loads(text)
        arguments, named, _ = json.loads(base64.b64decode(message["body"]))
        return Message(str(message["headers"]["task"]), tuple(arguments), dict(named))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no message of Celery: {error!r}") from error
