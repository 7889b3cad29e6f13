"""docs/fetching.md: the code that calls the client, run as it stands there."""

from textwrap import indent
from typing import Any

import pytest
from pytest_django import Settings

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
