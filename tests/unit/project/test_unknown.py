"""Unknown addresses."""

import pytest
from django.test import Client


@pytest.mark.parametrize("address", ["/staticmap/", "/nothing", "/feed.php?a=1", "/retry_after/x"])
def test_an_unknown_address_is_answered_by_a_problem(client: Client, address: str) -> None:
    response = client.get(address)
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    assert response["Cache-Control"] == "no-store"
    assert response.json()["detail"] == "There is no such address."


def test_a_browser_shows_a_person_a_page(client: Client) -> None:
    response = client.get("/nothing", headers={"Accept": "text/html,*/*;q=0.8"})
    assert response.status_code == 404
    assert response["Content-Type"].startswith("text/html")
    assert response["Cache-Control"] == "no-store"


def test_browsers_that_look_for_an_icon_by_themselves_find_it(client: Client) -> None:
    response = client.get("/favicon.ico")
    assert (response.status_code, response["Location"]) == (302, "/static/resources/icon.svg")
    assert response["Cache-Control"] == "public, max-age=300"
