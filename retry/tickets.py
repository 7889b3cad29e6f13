"""Tickets: the signed query string that a client carries to the waiting instance and back.

The signature proves that this site wrote every field. A ticket expires.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from django.core.signals import setting_changed
from django.core.signing import BadSignature, Signer

from .errors import TicketError

MAX_QUERY_BYTES = 8000
MAX_REDIRECT_CHARACTERS = 2800
MAX_QUOTED_CHARACTERS = 6000
"""The length within the ticket, where all but letters and digits take three characters."""
MAX_KEY_CHARACTERS = 500
MAX_HOST_CHARACTERS = 253
READ_KEPT = 200
"""The number of tickets that are not read anew."""
STATUS_PATH = "/status"
"""The path of the status address, below the waiting instance's path."""

_REQUIRED_NAMES = ("redirect", "retry_after", "key", "work", "hop", "sig")
_OPTIONAL_NAMES = ("deadline", "async", "page", "earliest")
_SIGNED_NAMES = ("redirect", "retry_after", "key", "work", "hop", *_OPTIONAL_NAMES)
_MOMENT = re.compile(r"[0-9]{1,11}(\.[0-9]{1,3})?", re.ASCII)
_PRINTABLE = r"[^\x00-\x20\x7f\\]"
_ADDRESS = r"[!-\[\]-~]"
"""A character of an address as header fields hold it: printable ASCII, and no backslash, which browsers take for /."""
_KEY = re.compile(f"{_PRINTABLE}{{1,{MAX_KEY_CHARACTERS}}}")
_PATTERNS = {
    "redirect": re.compile(f"{_ADDRESS}{{1,{MAX_REDIRECT_CHARACTERS}}}"),
    **{"key": _KEY, "work": _KEY, "retry_after": _MOMENT, "deadline": _MOMENT, "earliest": _MOMENT},
    "hop": re.compile(r"[1-9][0-9]?", re.ASCII),
    "async": re.compile("1"),
    "page": re.compile(f"{_ADDRESS}{{0,{MAX_HOST_CHARACTERS}}}"),
    "sig": re.compile(r"[0-9]{1,11}\.[A-Za-z0-9_-]{20,100}", re.ASCII),
}


@dataclass(frozen=True, slots=True)
class Ticket:
    """`redirect` is the address to return to; `retry_after`, Unix seconds, the time at which content is expected.

    `issued_at` is in whole Unix seconds and stays the same from hop to hop. `deadline`, Unix seconds,
    ends the whole wait (`Prefer: wait=N`); with `respond_async` it ends in a status address instead of 503.
    `page` is None but for people who wait for a page: then it is the host that the waiting page names, or empty.
    The client is not sent back before `earliest`, Unix seconds: main could not answer.
    """

    redirect: str
    retry_after: float
    content_key: str
    work_key: str
    issued_at: int
    hop: int = 1
    deadline: float | None = None
    respond_async: bool = False
    page: str | None = None
    earliest: float | None = None

    def next_hop(self) -> "Ticket":
        return replace(self, hop=self.hop + 1)

    def seconds_left(self, now: float) -> float:
        """The seconds until the deadline; infinite without one."""
        return inf if self.deadline is None else self.deadline - now

    @property
    def wait_seconds(self) -> int | None:
        """The seconds of `Prefer: wait`: `issued_at` has lost its fraction, the deadline has not."""
        return None if self.deadline is None else int(self.deadline - self.issued_at)


def ticket_address(ticket: Ticket, server: str) -> str:
    return f"{server}?{ticket_query(ticket)}"


def status_address(ticket: Ticket, server: str) -> str:
    """The URL that tells the state of the content. It never waits, so its ticket needs no limits of a wait."""
    bare = replace(ticket, hop=1, deadline=None, respond_async=False, earliest=None)
    return f"{server}{STATUS_PATH}?{ticket_query(bare)}"


def ticket_query(ticket: Ticket) -> str:
    fields = _ticket_fields(ticket)
    signature = f"{ticket.issued_at}.{_signer().signature(_signed_text(fields, ticket.issued_at))}"
    return urlencode([*fields.items(), ("sig", signature)], quote_via=quote, safe="/:")


def read_ticket(query: bytes | str, *, now: float, max_age_seconds: float, hosts: frozenset[str]) -> Ticket:
    """Reads a query string. Raises TicketError: 400 if malformed, 403 if forged or too old.

    `hosts` are the hosts that an absolute `redirect` may name besides a path on this site.
    """
    ticket = _read_signed(query, hosts)
    if not now - max_age_seconds <= ticket.issued_at <= now + 60:
        redirect = "" if ticket.page is None else ticket.redirect
        raise TicketError("This ticket is too old. Request the content again.", status=403, redirect=redirect)
    return ticket


@lru_cache(maxsize=READ_KEPT)
def _read_signed(query: bytes | str, hosts: frozenset[str]) -> Ticket:
    """Reads a ticket of any age. Thousands of clients may have the same one."""
    given = _parse_query(query)
    _require_own_address(given["redirect"], hosts)
    issued_at, _, signature = given["sig"].partition(".")
    ticket = Ticket(
        redirect=given["redirect"],
        retry_after=float(given["retry_after"]),
        content_key=given["key"],
        work_key=given["work"],
        issued_at=int(issued_at),
        hop=int(given["hop"]),
        deadline=float(given["deadline"]) if "deadline" in given else None,
        respond_async="async" in given,
        page=given.get("page"),
        earliest=float(given["earliest"]) if "earliest" in given else None,
    )
    try:
        _signer().unsign(f"{_signed_text(given, ticket.issued_at)}:{signature}")
    except BadSignature:
        raise TicketError("This ticket was not issued here.", status=403) from None
    return ticket


def _parse_query(query: bytes | str) -> dict[str, str]:
    if len(query) > MAX_QUERY_BYTES:
        raise TicketError("The query string is too long.", status=400)
    try:
        text = query.decode("ascii") if isinstance(query, bytes) else query
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=20)
    except (ValueError, UnicodeError):
        raise TicketError("The query string is malformed.", status=400) from None
    names = [name for name, _ in pairs]
    for name in (*_REQUIRED_NAMES, *_OPTIONAL_NAMES):
        if names.count(name) > 1:
            raise TicketError(f"The parameter {name} is given more than once.", status=400)
        if name not in names and name in _REQUIRED_NAMES:
            raise TicketError(f"The parameter {name} is missing.", status=400)
    given = dict(pairs)
    for name, pattern in _PATTERNS.items():
        if name in given and not pattern.fullmatch(given[name]):
            raise _malformed(name)
    return given


def _malformed(name: str) -> TicketError:
    return TicketError(f"The parameter {name} is malformed.", status=400)


def is_key(value: str) -> bool:
    """Tells whether a ticket can carry the key: printable, without blanks, not too long."""
    return _KEY.fullmatch(value) is not None


def is_host(value: str) -> bool:
    """Tells whether a ticket can carry the host of a page."""
    return _PATTERNS["page"].fullmatch(value) is not None


def is_way_back(address: str) -> bool:
    """Tells whether a ticket can carry the address beside its other fields."""
    if len(address) > MAX_REDIRECT_CHARACTERS:
        return False
    is_short = address.isascii() and 3 * len(address) <= MAX_QUOTED_CHARACTERS  # and so need not be quoted
    return is_short or len(quote(address, safe="")) <= MAX_QUOTED_CHARACTERS


def _require_own_address(redirect: str, hosts: frozenset[str]) -> None:
    if redirect.startswith("/") and not redirect.startswith("//"):
        return
    try:
        parts = urlsplit(redirect)
    except ValueError:
        raise _malformed("redirect") from None
    if parts.scheme not in ("http", "https") or parts.netloc not in hosts:
        raise TicketError("The parameter redirect leaves this site.", status=400)


def _ticket_fields(ticket: Ticket) -> dict[str, str]:
    fields = {
        "redirect": ticket.redirect,
        "retry_after": f"{ticket.retry_after:.3f}",
        "key": ticket.content_key,
        "work": ticket.work_key,
        "hop": str(ticket.hop),
    }
    if ticket.deadline is not None:
        fields["deadline"] = f"{ticket.deadline:.3f}"
    if ticket.respond_async:
        fields["async"] = "1"
    if ticket.page is not None:
        fields["page"] = ticket.page
    if ticket.earliest is not None:
        fields["earliest"] = f"{ticket.earliest:.3f}"
    return fields


def _signed_text(fields: Mapping[str, str], issued_at: int) -> str:
    """The signed text: the fields as they are written, not their numbers."""
    return urlencode([*((name, fields[name]) for name in _SIGNED_NAMES if name in fields), ("issued", issued_at)])


def _signer() -> Signer:
    return Signer(salt="retry.ticket")  # SECRET_KEY_FALLBACKS still verify: keys rotate


setting_changed.connect(lambda **_: _read_signed.cache_clear(), weak=False)  # tests override settings
