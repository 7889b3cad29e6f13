"""The admin of headers: values go in, and do not come out again."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from resources.fetching.keeping import hosts, sealing
from resources.fetching.keeping.models import FetchHeader

pytestmark = pytest.mark.django_db

LIST = "/admin/resources/fetchheader/"
SECRET = "Bearer 5f3d-secret"


def form(**fields: str) -> dict[str, str]:
    return {"host": "a.example.com", "name": "Authorization", "value": "", "variable": "", **fields}


def errors_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200
    found: dict[str, list[str]] = response.context["adminform"].form.errors
    return found


@pytest.fixture
def header(admin_client: Client) -> FetchHeader:
    assert admin_client.post(f"{LIST}add/", form(value=SECRET)).status_code == 302
    return FetchHeader.objects.get()


def page_of(header: FetchHeader) -> str:
    return f"{LIST}{header.pk}/change/"


def test_a_value_is_sealed_and_never_shown(header: FetchHeader, admin_client: Client) -> None:
    assert "secret" not in header.sealed
    assert sealing.unseal(header.sealed) == SECRET
    for address in (LIST, page_of(header), f"{LIST}{header.pk}/history/", f"{LIST}{header.pk}/delete/"):
        text = admin_client.get(address).content.decode()
        assert "secret" not in text
        assert header.sealed not in text
    assert "in the database, sealed" in admin_client.get(LIST).content.decode()


def test_a_value_that_is_refused_does_not_come_back_either(header: FetchHeader, admin_client: Client) -> None:
    response = admin_client.post(page_of(header), form(value=SECRET, name="bad name"))
    assert "name" in errors_of(response)
    assert SECRET not in response.content.decode()


def test_left_empty_the_value_stays(header: FetchHeader, admin_client: Client) -> None:
    assert admin_client.post(page_of(header), form(name="X-Token")).status_code == 302
    changed = FetchHeader.objects.get()
    assert (changed.name, sealing.unseal(changed.sealed)) == ("X-Token", SECRET)
    admin_client.post(page_of(header), form(value=" new "))
    assert sealing.unseal(FetchHeader.objects.get().sealed) == " new "


def test_a_value_goes_to_no_other_host_than_it_was_given_for(header: FetchHeader, admin_client: Client) -> None:
    assert "value" in errors_of(admin_client.post(page_of(header), form(host="evil.example.com")))
    assert admin_client.post(page_of(header), form(host="b.example.com", value="x")).status_code == 302
    assert sealing.unseal(FetchHeader.objects.get().sealed) == "x"


def test_a_variable_takes_the_place_of_a_value(
    header: FetchHeader, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert admin_client.post(page_of(header), form(variable="FETCH_HEADER_A")).status_code == 302
    found = FetchHeader.objects.get()
    assert (found.sealed, found.variable) == ("", "FETCH_HEADER_A")
    assert "has no value here that can be sent" in admin_client.get(LIST).content.decode()
    monkeypatch.setenv("FETCH_HEADER_A", SECRET)
    assert hosts.value_of(found) == SECRET
    text = admin_client.get(LIST).content.decode()
    assert "in the environment: FETCH_HEADER_A" in text
    assert "secret" not in text


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
    assert "Set it again." in admin_client.get(LIST).content.decode()


def test_who_may_only_look_sees_where_it_is(header: FetchHeader, client: Client) -> None:
    user = User.objects.create_user("looker", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_fetchheader"))
    client.force_login(user)
    text = client.get(page_of(header)).content.decode()
    assert "in the database, sealed" in text
    assert "secret" not in text
    assert client.post(page_of(header), form(value="x")).status_code == 403


@pytest.mark.parametrize("name", ["Range", "if-none-match", "If-Modified-Since", "Accept-Encoding", "Cookie"])
def test_what_fetches_set_themselves_is_refused(name: str, admin_client: Client) -> None:
    errors = errors_of(admin_client.post(f"{LIST}add/", form(name=name, value="x")))
    assert errors["name"] == [f"It cannot be sent: {name} is for fetches themselves to set, or to leave out."]
    stored = FetchHeader(host="a.example.com", name=name, sealed=sealing.seal("x"))
    assert hosts.value_of(stored) is None  # it may have been stored before
