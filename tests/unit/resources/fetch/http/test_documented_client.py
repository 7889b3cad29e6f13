"""docs/fetching.md: the code that calls the client, run as it stands there."""

from textwrap import indent
from typing import Any

import pytest
from pytest_django import Settings

from resources.fetch import conf
from resources.fetch.frontier import queue
from resources.fetch.http.client import FetchClient
from resources.fetch.http.messages import Fetched, FetchRequest
from tests.hostile.origin import Origin, answer
from tests.support.documentation import code_block


@pytest.mark.anyio
async def test_the_documented_calls_fetch(origin: Origin, settings: Settings) -> None:
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.0/8"]
    url = origin.does("/feed.xml", answer(body=b"feed"))
    code = code_block("docs/fetching.md", "python", "async with FetchClient")
    code = code.replace("https://example.org/feed.xml", url)
    names: dict[str, Any] = {}
    exec(f"async def call():\n{indent(code, '  ')}\n  return head", names)
    assert (await names["call"]()).status == 200


@pytest.mark.anyio
async def test_the_documented_client_of_an_egress_fetches(origin: Origin, settings: Settings) -> None:
    settings.FETCH_ALLOW_PRIVATE, settings.FETCH_EGRESS = ["127.0.0.0/8"], ["a=127.0.0.2"]
    url, clients = origin.does("/", answer()), dict[str, FetchClient]()
    code = code_block("docs/fetching.md", "python", "configured_egresses")
    exec(code, {"queue": queue, "conf": conf, "FetchClient": FetchClient, "clients": clients})
    async with clients["a"] as client:
        assert isinstance(await client.fetch(FetchRequest(url, limits=conf.fast_limits())), Fetched)
