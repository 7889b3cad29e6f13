"""Tickets: written ones are read, and no others are honoured."""

from dataclasses import replace
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from retry.errors import TicketError
from retry.tickets import MAX_KEY_CHARACTERS, MAX_REDIRECT_CHARACTERS, Ticket, read_ticket, status_address, ticket_query

NOW = 1_800_000_000
SITE = frozenset({"tiles.example"})

ascii_text = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="\\"), min_size=1)
text = st.text(st.characters(min_codepoint=0x21, exclude_characters="\\\x7f", exclude_categories=["Cs"]), min_size=1)
tickets = st.builds(
    Ticket,
    redirect=ascii_text.map(lambda t: "/" + t.lstrip("/")[:300]),
    retry_after=st.integers(0, 10_000_000_000).map(float),
    content_key=text.map(lambda t: t[:MAX_KEY_CHARACTERS]),
    work_key=text.map(lambda t: t[:MAX_KEY_CHARACTERS]),
    issued_at=st.just(NOW),
    hop=st.integers(1, 99),
    deadline=st.none() | st.integers(0, 10_000_000_000).map(float),
    respond_async=st.booleans(),
    page=st.none() | st.just("") | ascii_text.map(lambda t: t[:100]),
    earliest=st.none() | st.integers(0, 10_000_000_000).map(float),
)
NAMES = ["redirect", "retry_after", "key", "work", "hop", "deadline", "async", "page", "earliest", "sig"]
TICKET = Ticket("/tiles/a/1/0/0.png", NOW + 2.5, "tile:a:1:0:0:png", "paint:a:7:1:0:0", NOW)


def read(query: str | bytes, *, now: float = NOW) -> Ticket:
    return read_ticket(query, now=now, max_age_seconds=600, hosts=SITE)


def refusal(query: str | bytes, *, now: float = NOW) -> int:
    with pytest.raises(TicketError) as caught:
        read(query, now=now)
    return caught.value.status


def changed(**fields: str) -> str:
    return urlencode(dict(parse_qsl(ticket_query(TICKET), keep_blank_values=True)) | fields)


@given(tickets)
def test_a_ticket_survives_its_way_through_the_client(ticket: Ticket) -> None:
    assert read(ticket_query(ticket).encode()) == ticket


@given(tickets, st.sampled_from(NAMES), text)
def test_a_changed_ticket_is_refused(ticket: Ticket, name: str, value: str) -> None:
    fields = dict(parse_qsl(ticket_query(ticket), keep_blank_values=True))
    if fields.get(name) != value:
        assert refusal(urlencode(fields | {name: value})) in (400, 403)


@given(st.binary(max_size=300))
def test_noise_is_malformed(noise: bytes) -> None:
    assert refusal(noise) == 400


@given(st.dictionaries(st.sampled_from(["redirect", "retry_after", "key", "work", "hop", "sig"]), st.text()))
def test_noise_in_the_parameters_is_refused(fields: dict[str, str]) -> None:
    assert refusal(urlencode(fields, errors="replace")) in (400, 403)


@pytest.mark.parametrize("name", ["redirect", "retry_after", "key", "work", "hop", "sig"])
def test_a_missing_or_repeated_parameter_is_malformed(name: str) -> None:
    query = ticket_query(TICKET)
    fields = dict(parse_qsl(query))
    assert refusal(f"{query}&{urlencode({name: fields.pop(name)})}") == 400
    assert refusal(urlencode(fields)) == 400


MOMENTS = ["nan", "NaN", "inf", "-inf", "Infinity", "-1", "1e3", "", " 1", "1 ", "+1", "0x1", "1_000", "9" * 400, "١٢"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("retry_after", moment) for moment in (*MOMENTS, "1.", ".5")),
        *(("deadline", "nan"), ("deadline", "-1"), ("earliest", "nan"), ("async", "0"), ("async", "")),
        *(("hop", hop) for hop in ("0", "-1", "1.5", "nan", "inf", "100", "", "٢", "9" * 100)),
        *(("key", "x" * (MAX_KEY_CHARACTERS + 1)), ("work", "a b")),
    ],
)
def test_a_value_of_another_form_is_malformed(name: str, value: str) -> None:
    assert refusal(changed(**{name: value})) == 400


@pytest.mark.parametrize(
    "redirect",
    [
        *("", "//evil.example/", "/\\evil.example", "https://evil.example/", "http://tiles.example@evil.example/"),
        *("javascript:alert(1)", "tiles/a", "/a\r\nSet-Cookie: x=1", "/a b", "/" + "x" * MAX_REDIRECT_CHARACTERS),
        *("http://[::1", "/caf\u00e9", "https://tiles.example/caf\u00e9"),
    ],
)
def test_a_redirect_never_leaves_the_site(redirect: str) -> None:
    assert refusal(changed(redirect=redirect)) == 400


def test_an_absolute_redirect_to_an_allowed_host_is_honoured() -> None:
    ticket = Ticket("https://tiles.example/a", NOW, "k", "w", NOW)
    assert read(ticket_query(ticket)) == ticket


@pytest.mark.parametrize("added", ["&x=" + "y" * 9000, "&async=1&async=1"], ids=["absurdly long", "repeated"])
def test_a_query_with_more_in_it_is_malformed(added: str) -> None:
    assert refusal(ticket_query(TICKET) + added) == 400


@pytest.mark.parametrize("name", ["work", "retry_after", "deadline", "async", "page", "earliest"])
def test_a_client_can_neither_change_its_ticket_nor_add_to_it(name: str) -> None:
    assert refusal(changed(**{name: "1"})) == 403


def test_a_ticket_that_is_old_or_from_the_future_is_forbidden() -> None:
    assert read(ticket_query(TICKET), now=NOW + 599) == TICKET
    assert refusal(ticket_query(TICKET), now=NOW + 601) == 403
    assert refusal(ticket_query(TICKET), now=NOW - 61) == 403


def test_an_address_beyond_ascii_is_malformed_even_if_it_was_signed_here() -> None:
    assert refusal(ticket_query(replace(TICKET, redirect="/caf\u00e9"))) == 400


@pytest.mark.parametrize(("page", "redirect"), [(None, ""), ("", TICKET.redirect)])
def test_an_old_ticket_of_a_page_still_tells_the_address_of_the_content(page: str | None, redirect: str) -> None:
    with pytest.raises(TicketError) as caught:
        read(ticket_query(replace(TICKET, page=page)), now=NOW + 601)
    assert (caught.value.status, caught.value.redirect) == (403, redirect)


def test_keys_rotate(settings: Settings) -> None:
    old = ticket_query(TICKET)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another"
    assert read(old) == TICKET
    settings.SECRET_KEY_FALLBACKS = []
    assert refusal(old) == 403


def test_a_client_cannot_wait_for_longer_than_it_said() -> None:
    ticket = replace(TICKET, deadline=NOW + 5.25, respond_async=True)
    fields = dict(parse_qsl(ticket_query(ticket)))
    assert (ticket.wait_seconds, ticket.seconds_left(NOW + 1)) == (5, 4.25)
    for name in ("deadline", "async"):
        assert refusal(urlencode({other: value for other, value in fields.items() if other != name})) == 403


def test_a_status_address_says_nothing_of_waits() -> None:
    address = urlsplit(status_address(replace(TICKET, hop=2, deadline=NOW + 5.0, respond_async=True), "/retry_after"))
    assert address.path == "/retry_after/status"
    assert read(address.query) == TICKET
