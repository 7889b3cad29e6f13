"""The stack that flow tests share. Tests that need other settings share the site of a folder, or start one."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
import requests
from playwright.sync_api import Browser, Page, expect

from resources.demo.demo_layers import DEMO_LAYERS

from ..support import browser as support_browser
from ..support import other_site
from ..support.crowd import Crowd
from ..support.stack import Stack, eventually

DEMO = {layer.slug for layer in DEMO_LAYERS}
expect.set_options(timeout=30_000)  # as all else in the browser, however busy the machine is
DELETE_OTHERS = f"""
from resources.tiles.models import Layer
from resources.tiles import publication
publication.delete_layers(Layer.objects.exclude(slug__in={DEMO}))
"""


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    """One whole site for all flows of this process."""
    with Stack() as running:
        yield running


@pytest.fixture
def crowd(stack: Stack) -> Iterator[Crowd]:
    """Clients of the stack."""
    with Crowd(stack.base_url) as clients:
        yield clients


@pytest.fixture
def name() -> str:
    """A name of slow content that was never requested."""
    return uuid4().hex


@pytest.fixture
def slug(name: str) -> str:
    """The name of a layer that there never was."""
    return f"l{name[:8]}"


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with support_browser.chromium() as running:
        yield running


@pytest.fixture(scope="package")
def other_page_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with other_site.serving(tmp_path_factory.mktemp("other")) as address:
        yield address


@pytest.fixture
def other_page(browser: Browser, other_page_address: str) -> Iterator[Page]:
    """A page of another site, open in Chromium."""
    page = browser.new_page()
    page.goto(other_page_address)
    yield page
    page.close()


@pytest.fixture(scope="module")
def site(stack: Stack) -> str:
    """The address of the stack, which has the demo's layers and no others."""
    stack.change_layers("shell", "-c", DELETE_OTHERS)
    stack.manage("demo")
    changes = f"{stack.base_url}/changes.json"
    eventually(lambda: requests.get(changes, timeout=5).json()["layers"].keys() == DEMO, 10, "main knows the layers")
    return stack.base_url


@pytest.fixture
def desktop(browser: Browser) -> Iterator[support_browser.Visit]:
    with support_browser.visit(browser, viewport=support_browser.DESKTOP) as visit:
        yield visit


@pytest.fixture
def dark_desktop(browser: Browser) -> Iterator[support_browser.Visit]:
    with support_browser.visit(browser, viewport=support_browser.DESKTOP, color_scheme="dark") as visit:
        yield visit


@pytest.fixture
def phone(browser: Browser) -> Iterator[support_browser.Visit]:
    options = {"device_scale_factor": 2, "is_mobile": True, "has_touch": True}
    with support_browser.visit(browser, viewport=support_browser.PHONE, **options) as visit:
        yield visit


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the ends of the stack's logs to a failed test's report."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    stack = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(stack, Stack):
        report.sections.append(("logs of the stack", stack.logs()))
