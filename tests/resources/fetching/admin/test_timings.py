"""The admin of timings: a long table that is looked at, and never counted."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from resources.fetching.keeping import timings
from tests.resources.fetching.fetches import NOON, record

pytestmark = pytest.mark.django_db

LIST = "/admin/resources/fetchtiming/"


def hosts_of(text: str) -> list[str]:
    return re.findall(r'field-host">(.*?)<', text)


def page(client: Client, **asked: str) -> str:
    response = client.get(LIST, asked)
    assert response.status_code == 200
    return response.content.decode()


def test_the_latest_come_first(admin_client: Client) -> None:
    timings.write([record(f"{number}.example.com", after=number) for number in range(3)])
    assert hosts_of(page(admin_client)) == ["2.example.com", "1.example.com", "0.example.com"]


def test_they_can_be_filtered(admin_client: Client) -> None:
    timings.write([record("a.example.com"), record("b.example.com", outcome="throttled")])
    assert hosts_of(page(admin_client, outcome="throttled")) == ["b.example.com"]
    assert hosts_of(page(admin_client, kind="feed")) == []
    assert len(hosts_of(page(admin_client, lane="fast"))) == 2


def test_they_are_found_by_domain_and_by_address(admin_client: Client) -> None:
    timings.write([record("a.example.com", url="https://a.example.com/X?y"), record("b.example.com")])
    assert hosts_of(page(admin_client, q=" A.example.com")) == ["a.example.com"]
    assert hosts_of(page(admin_client, q="https://a.example.com/X?y")) == ["a.example.com"]
    assert hosts_of(page(admin_client, q="example")) == []


def test_pages_are_turned_without_counting_the_table(admin_client: Client) -> None:
    timings.write([record(f"{number}.example.com", NOON - timedelta(seconds=number)) for number in range(120)])
    with CaptureQueriesContext(connection) as queries:
        first = page(admin_client)
    counting = [query["sql"] for query in queries if "COUNT(" in query["sql"]]
    assert counting
    assert all("LIMIT 51" in sql for sql in counting)
    assert len(hosts_of(first)) == 50
    assert "?p=2" in first
    assert "?p=3" not in first
    assert hosts_of(page(admin_client, p="2"))[0] == "50.example.com"
    assert "120" not in first
    assert "51 results" not in first
    assert len(hosts_of(page(admin_client, p="3"))) == 20


@pytest.mark.parametrize("number", ["0", "-1", "x", "٣", "99", "1" * 30, "1" * 5000])
def test_a_page_that_there_is_not_is_no_error(admin_client: Client, number: str) -> None:
    timings.write([record()])
    assert admin_client.get(LIST, {"p": number}).status_code in {200, 302}


def test_nobody_changes_what_was_measured(admin_client: Client) -> None:
    timings.write([record()])
    assert admin_client.get(f"{LIST}add/").status_code == 403
    assert "action-select" not in page(admin_client)
    assert admin_client.post(f"{LIST}1/delete/", {"post": "yes"}).status_code == 403
