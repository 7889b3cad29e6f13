"""The shortest way through everything."""

from uuid import uuid4

import pytest
import requests

from ..support.stack import Stack
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database


def test_cold_content_comes_after_exactly_two_redirects(stack: Stack) -> None:
    name = uuid4().hex
    answer = requests.get(f"{stack.base_url}/slow/{name}?seconds=0.3&size=5000", timeout=20)
    assert answer.status_code == 200
    assert [step.status_code for step in answer.history] == [302, 302]
    assert answer.history[0].headers["Location"].startswith("/retry_after?")
    assert answer.content == SlowContent(name, size=5000).body
    assert stack.executions(name) == 1


def test_content_that_is_there_is_answered_at_once(stack: Stack) -> None:
    name = uuid4().hex
    address = f"{stack.base_url}/slow/{name}"
    requests.get(address, timeout=20)
    again = requests.get(address, timeout=20)
    assert again.status_code == 200
    assert again.history == []
    assert again.content == SlowContent(name).body
    assert "hit" in again.headers["Cache-Status"]
    assert stack.executions(name) == 1


def test_the_front_answers_by_itself_what_it_has_just_seen(stack: Stack) -> None:
    name = uuid4().hex
    address = f"{stack.base_url}/slow/{name}"
    requests.get(address, timeout=20)
    requests.get(address, timeout=20)
    from_the_front = requests.get(address, timeout=20)
    assert "nginx; hit" in from_the_front.headers["Cache-Status"]
    assert "front;desc=HIT" in from_the_front.headers["Server-Timing"]
