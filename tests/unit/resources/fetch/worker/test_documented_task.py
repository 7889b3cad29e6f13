"""docs/fetching.md: the task, the setting and the view of fetched content, run as they stand there."""

import asyncio
import sys
from types import ModuleType
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from resources.fetch.task import identify_job
from retry.deferral import serve_or_defer
from retry.work import Work
from tests.hostile.origin import Origin, answer
from tests.support.documentation import code_block
from tests.support.fetcher_threads import fetching

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]

PAGE = "docs/fetching.md"


@pytest.fixture
def documented(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the view's module, with the imports that the page leaves out."""
    module, of_settings = ModuleType("quotes.fetch_task"), {"FETCH_TASKS": dict[str, str]()}
    exec(code_block(PAGE, "python", "# quotes/fetch_task.py"), vars(module))
    exec(code_block(PAGE, "python", "# project/settings.py"), of_settings)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    settings.FETCH_TASKS = of_settings["FETCH_TASKS"]
    return {"HttpRequest": HttpRequest, "HttpResponse": HttpResponse, "Work": Work, "serve_or_defer": serve_or_defer}


async def test_the_documented_content_is_fetched_for_a_client_that_waits(
    origin: Origin, documented: dict[str, Any]
) -> None:
    url = origin.does("/one", answer(body=b"So it goes."))
    view = code_block(PAGE, "python", "# quotes/views.py")
    exec(view.replace("https://quotes.example.org", url.removesuffix("/one")), documented)

    async def ask() -> HttpResponse:
        response: HttpResponse = await asyncio.to_thread(documented["quote"], RequestFactory().get("/q/one"), "one")
        return response

    async with fetching(), asyncio.timeout(20):
        assert (await ask()).status_code == 302
        while (response := await ask()).status_code == 302:
            await asyncio.sleep(0.05)
    assert (response.status_code, response.content) == (200, b"So it goes.")
    assert origin.targets == ["/one"]


def test_jobs_of_the_documented_identity_differ_by_reader() -> None:
    names = dict[str, Any]()
    exec(f"class OfReader:\n{code_block(PAGE, 'python', 'def identify')}", names)
    ann, ben = (identify_job(names["OfReader"](), ("https://example.org/", reader)) for reader in ("ann", "ben"))
    assert (ann, ben) == ("ann", "ben")
