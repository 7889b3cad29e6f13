"""Pages that only show something answer other methods with 405, and say which they know."""

import json

import pytest
from django.test import Client


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize(
    "address",
    [
        "/",
        "/changes.json",
        "/favicon.ico",
        "/feeds/all.atom",
        "/feeds/news/",
        "/healthz",
        "/layers/jams",
        "/layers/jams/",
        "/layers/a/b",
        "/metrics",
        f"/resources/{64 * '0'}",
        "/retry_after",
        "/retry_after/status",
        "/staticmap",
        "/tiles/jams.json",
        "/tiles/jams/0/0/0.png",
    ],
)
def test_a_method_that_changes_things_is_not_allowed(address: str, method: str) -> None:
    response = getattr(Client(enforce_csrf_checks=True), method)(address)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert json.loads(response.content)["status"] == 405
