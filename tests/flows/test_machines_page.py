"""The admin's page of machines in Chromium: a machine turns red while somebody looks on."""

import signal

import pytest
from playwright.sync_api import Browser, expect

from resources import machines
from tests.support.browser import WIDE, visit
from tests.support.machines import note, process
from tests.support.stack import Stack, eventually

MAKE_ADMIN = """
from django.contrib.auth.models import User
User.objects.filter(username="machines").exists() or User.objects.create_superuser("machines", password="secret")
"""
OTHER = "hamburg"

pytestmark = [pytest.mark.browser, pytest.mark.no_database]


def test_a_silent_machine_turns_red_by_itself_and_the_page_says_when_the_site_is_away(
    stack: Stack, browser: Browser
) -> None:
    stack.manage("shell", "-c", MAKE_ADMIN)
    eventually(lambda: all_run(stack), 60, "supervisord has told of all processes")
    painter = process("paint-now", "paint", "paint.now", "paint.pages", workers=4)
    note(stack.state, OTHER, painter, roles=["paint"], version="0.1.0", up_seconds=90_000)
    with visit(browser, viewport=WIDE) as look:
        page = look.page
        page.goto(f"{stack.base_url}/admin/login/?next=/admin/resources/machine/")
        page.fill("#id_username", "machines")
        page.fill("#id_password", "secret")
        page.click("[type=submit]")
        expect(page.locator("#machines .word")).to_have_text("well")
        expect(page.locator("#machines tbody tr")).to_have_count(2)
        red = page.locator("#machines tr.is-refused")
        expect(red).to_have_count(1, timeout=60_000)
        expect(red).to_contain_text(f"{OTHER} not heard for")
        expect(page.locator("#machines.is-trouble .word")).to_have_text("trouble")
        assert look.complaints == []
        red.get_by_role("button", name="Forget").click()
        expect(page.locator("#machines tbody tr")).to_have_count(1)
        stack.signal("nginx", signal.SIGSTOP, children=True)
        try:
            expect(page.locator("#machines.is-stale .reason")).to_contain_text("The site has not answered for")
        finally:
            stack.signal("nginx", signal.SIGCONT, children=True)
        expect(page.locator("#machines .word")).to_have_text("well")


def all_run(stack: Stack) -> bool:
    found = machines.read_machines(stack.state)
    return bool(found) and all(process.is_running for one in found for process in one.processes)
