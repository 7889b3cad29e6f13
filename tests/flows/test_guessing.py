"""A client that guesses admin passwords is refused after a few, under any claimed address."""

from collections.abc import Iterator

import pytest
import requests

from ..support.stack import Stack

MOST = 10
"""The default of ADMIN_SIGN_INS."""


@pytest.fixture
def uncounted(stack: Stack) -> Iterator[Stack]:
    """Others sign in to the same site, from the same address."""
    forget(stack)
    yield stack
    forget(stack)


def forget(stack: Stack) -> None:
    for key in stack.state.scan_iter("admin:*"):
        stack.state.delete(key)


def guess(stack: Stack, number: int) -> requests.Response:
    address = f"{stack.base_url}/admin/login/"
    forged = f"198.51.100.{number}"
    with requests.Session() as session:
        session.headers.update({"X-Forwarded-For": forged, "X-Real-IP": forged, "Forwarded": f"for={forged}"})
        token = session.get(address, timeout=10).cookies["csrftoken"]
        told = {"username": f"somebody{number}", "password": f"guess {number}", "csrfmiddlewaretoken": token}
        return session.post(address, data=told, headers={"Referer": address}, timeout=10)


def test_one_network_may_try_a_few_passwords_and_then_has_to_wait(uncounted: Stack) -> None:
    answers = [guess(uncounted, number) for number in range(2 * MOST + 1)]  # ten minutes may end among them
    statuses = [answer.status_code for answer in answers]
    assert statuses[:MOST] == [200] * MOST
    refused = answers[statuses.index(429)]
    assert 0 < int(refused.headers["Retry-After"]) <= 600
    assert "no-store" in refused.headers["Cache-Control"]
