"""Pages that only show something answer other methods with 405, and say which they know."""

import json

import pytest
from django.test import Client


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize(
    "address",
    [
        *("/", "/changes.json", "/favicon.ico", "/healthz", "/metrics", "/retry_after", "/retry_after/status"),
        *("/feeds/all.atom", "/feeds/news/", "/layers/jams", "/layers/jams/", "/layers/a/b", "/staticmap"),
        *(f"/resources/{64 * '0'}", "/tiles/jams.json", "/tiles/jams/0/0/0.png"),
    ],
)
def test_a_method_that_changes_things_is_not_allowed(address: str, method: str) -> None:
    response = getattr(Client(enforce_csrf_checks=True), method)(address)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert json.loads(response.content)["status"] == 405
