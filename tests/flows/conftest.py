"""The stack that flow tests share. A test that changes its settings starts one of its own."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.flows.crowd import Crowd
from tests.flows.stack import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """One whole site for all tests of this process."""
    with Stack() as running:
        yield running


@pytest.fixture
def crowd(stack: Stack) -> Iterator[Crowd]:
    """Clients of the stack."""
    with Crowd(stack.base_url) as clients:
        yield clients


@pytest.fixture
def name() -> str:
    """A name of slow content that nobody has asked for."""
    return uuid4().hex


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the ends of the stack's logs to a failed test's report."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    stack = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(stack, Stack):
        report.sections.append(("logs of the stack", stack.logs()))
