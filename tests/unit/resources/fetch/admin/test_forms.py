"""The admin of headers, whose values are never shown again, and of timings, a long table that is never counted."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from resources.fetch import host_settings, timings
from resources.fetch.models import FetchHeader
from tests.support.admin_pages import errors_of, log_in_to_look
from tests.support.fetch_outcomes import NOON, record

pytestmark = pytest.mark.django_db

LIST = "/admin/resources/fetchheader/"
SECRET = "Bearer 5f3d-secret"


def form(**fields: str) -> dict[str, str]:
    return {"host": "a.example.com", "name": "Authorization", "value": "", "variable": "", **fields}


@pytest.fixture
def header(admin_client: Client) -> FetchHeader:
    assert admin_client.post(f"{LIST}add/", form(value=SECRET)).status_code == 302
    return FetchHeader.objects.get()


def page_of(header: FetchHeader) -> str:
    return f"{LIST}{header.pk}/change/"


def test_a_value_is_sealed_and_never_shown(header: FetchHeader, admin_client: Client) -> None:
    assert "secret" not in header.sealed
    assert host_settings.unseal_value(header.sealed) == SECRET
    for address in (LIST, page_of(header), f"{LIST}{header.pk}/history/", f"{LIST}{header.pk}/delete/"):
        text = admin_client.get(address).content.decode()
        assert SECRET not in text
        assert header.sealed not in text
    assert "stored encrypted" in admin_client.get(LIST).content.decode()


def test_a_value_that_is_refused_does_not_come_back_either(header: FetchHeader, admin_client: Client) -> None:
    response = admin_client.post(page_of(header), form(value=SECRET, name="bad name"))
    assert "name" in errors_of(response)
    assert SECRET not in response.content.decode()


def test_left_empty_the_value_stays(header: FetchHeader, admin_client: Client) -> None:
    assert admin_client.post(page_of(header), form(name="X-Token")).status_code == 302
    changed = FetchHeader.objects.get()
    assert (changed.name, host_settings.unseal_value(changed.sealed)) == ("X-Token", SECRET)
    admin_client.post(page_of(header), form(value=" new "))
    assert host_settings.unseal_value(FetchHeader.objects.get().sealed) == " new "


def test_a_value_goes_to_no_other_host_than_it_was_given_for(header: FetchHeader, admin_client: Client) -> None:
    assert "value" in errors_of(admin_client.post(page_of(header), form(host="evil.example.com")))
    assert admin_client.post(page_of(header), form(host="b.example.com", value="x")).status_code == 302
    assert host_settings.unseal_value(FetchHeader.objects.get().sealed) == "x"


def test_a_variable_takes_the_place_of_a_value(
    header: FetchHeader, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert admin_client.post(page_of(header), form(variable="FETCH_HEADER_A")).status_code == 302
    found = FetchHeader.objects.get()
    assert (found.sealed, found.variable) == ("", "FETCH_HEADER_A")
    assert "without a valid value" in admin_client.get(LIST).content.decode()
    monkeypatch.setenv("FETCH_HEADER_A", SECRET)
    assert host_settings.header_value(found) == SECRET
    text = admin_client.get(LIST).content.decode()
    assert "environment variable FETCH_HEADER_A" in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "value"),
        ({"value": "x", "variable": "FETCH_HEADER_A"}, "value"),
        ({"value": "a\tb\x01"}, "value"),
        ({"value": "x" * 4001}, "value"),
        ({"variable": "SECRET_KEY"}, "variable"),
        ({"variable": "FETCH_HEADER_"}, "variable"),
        ({"value": "x", "name": "Host"}, "name"),
        ({"value": "x", "name": "Content-Length"}, "name"),
        ({"value": "x", "name": "a:b"}, "name"),
        ({"value": "x", "host": "a.example.com/path"}, "host"),
        ({"value": "x", "host": "address:192.0.2.1"}, "host"),
        ({"value": "x", "host": "*.example.com"}, "host"),
    ],
)
def test_what_cannot_be_sent_is_refused(admin_client: Client, fields: dict[str, str], field: str) -> None:
    assert field in errors_of(admin_client.post(f"{LIST}add/", form(**fields)))
    assert not FetchHeader.objects.exists()


def test_a_host_has_a_header_once_in_whatever_case(header: FetchHeader, admin_client: Client) -> None:
    response = admin_client.post(f"{LIST}add/", form(host="A.example.com", name="authorization", value="x"))
    assert errors_of(response) == {"__all__": ["This host has that header already."]}


def test_a_value_whose_key_is_gone_is_told(header: FetchHeader, admin_client: Client, settings: Any) -> None:
    FetchHeader.objects.update(sealed="gAAAAA")
    assert "Enter it again." in admin_client.get(LIST).content.decode()


def test_who_may_only_look_sees_where_it_is(header: FetchHeader, client: Client) -> None:
    log_in_to_look(client, "fetchheader")
    text = client.get(page_of(header)).content.decode()
    assert "stored encrypted" in text
    assert SECRET not in text
    assert client.post(page_of(header), form(value="x")).status_code == 403


@pytest.mark.parametrize("name", ["Range", "if-none-match", "If-Modified-Since", "Accept-Encoding", "Cookie"])
def test_what_fetches_set_themselves_is_refused(name: str, admin_client: Client) -> None:
    errors = errors_of(admin_client.post(f"{LIST}add/", form(name=name, value="x")))
    assert errors["name"] == [f"The header cannot be sent: {name} is for fetches themselves to set, or to leave out."]
    stored = FetchHeader(host="a.example.com", name=name, sealed=host_settings.seal_value("x"))
    assert host_settings.header_value(stored) is None  # it may have been stored before


TIMINGS_LIST = "/admin/resources/fetchtiming/"


def hosts_of(text: str) -> list[str]:
    return re.findall(r'field-host">(.*?)<', text)


def page(client: Client, **asked: str) -> str:
    response = client.get(TIMINGS_LIST, asked)
    assert response.status_code == 200
    return response.content.decode()


def test_the_latest_come_first(admin_client: Client) -> None:
    timings.write_records([record(f"{number}.example.com", after=number) for number in range(3)])
    assert hosts_of(page(admin_client)) == ["2.example.com", "1.example.com", "0.example.com"]


def test_they_can_be_filtered(admin_client: Client) -> None:
    timings.write_records([record("a.example.com"), record("b.example.com", outcome="throttled")])
    assert hosts_of(page(admin_client, outcome="throttled")) == ["b.example.com"]
    assert hosts_of(page(admin_client, kind="feed")) == []
    assert len(hosts_of(page(admin_client, lane="fast"))) == 2


def test_they_are_found_by_domain_and_by_address(admin_client: Client) -> None:
    timings.write_records([record("a.example.com", url="https://a.example.com/X?y"), record("b.example.com")])
    assert hosts_of(page(admin_client, q=" A.example.com")) == ["a.example.com"]
    assert hosts_of(page(admin_client, q="https://a.example.com/X?y")) == ["a.example.com"]
    assert hosts_of(page(admin_client, q="example")) == []


def test_pages_are_turned_without_counting_the_table(admin_client: Client) -> None:
    timings.write_records([record(f"{number}.example.com", NOON - timedelta(seconds=number)) for number in range(120)])
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
    timings.write_records([record()])
    assert admin_client.get(TIMINGS_LIST, {"p": number}).status_code in {200, 302}


def test_nobody_changes_what_was_measured(admin_client: Client) -> None:
    timings.write_records([record()])
    assert admin_client.get(f"{TIMINGS_LIST}add/").status_code == 403
    assert "action-select" not in page(admin_client)
    assert admin_client.post(f"{TIMINGS_LIST}1/delete/", {"post": "yes"}).status_code == 403
