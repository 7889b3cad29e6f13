"""The ticket: what a client carries from main to the waiting instance and back.

It is signed, so that it names nothing but what this site wrote into it, and it grows old.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from django.core.signing import BadSignature, Signer

from .errors import TicketError

MAX_QUERY_BYTES = 8000
MAX_REDIRECT_CHARACTERS = 2800
MAX_QUOTED_CHARACTERS = 6000
"""As the ticket has it: what is no letter or digit takes three."""
MAX_KEY_CHARACTERS = 500
STATUS = "/status"
"""Below the waiting instance's path."""

_NAMES = ("redirect", "retry_after", "key", "work", "hop", "sig")
_OPTIONAL = ("deadline", "async")
_SIGNED = ("redirect", "retry_after", "key", "work", "hop", *_OPTIONAL)
_MOMENT = re.compile(r"[0-9]{1,11}(\.[0-9]{1,3})?", re.ASCII)
_HOP = re.compile(r"[1-9][0-9]?", re.ASCII)
_YES = re.compile("1")
_SIGNATURE = re.compile(r"([0-9]{1,11})\.([A-Za-z0-9_-]{20,100})", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\\]")


@dataclass(frozen=True, slots=True)
class Ticket:
    """`redirect` is where the client goes back to; `retry_after`, Unix seconds, when content is expected.

    `issued_at` is in whole Unix seconds and stays the same from hop to hop. `deadline`, Unix seconds,
    ends the whole wait (`Prefer: wait=N`); `respond_async` has it end in a status address instead of 503.
    """

    redirect: str
    retry_after: float
    content_key: str
    work_key: str
    issued_at: int
    hop: int = 1
    deadline: float | None = None
    respond_async: bool = False

    def next_hop(self) -> "Ticket":
        return replace(self, hop=self.hop + 1)

    def seconds_left(self, now: float) -> float:
        """Until the deadline; endless without one."""
        return inf if self.deadline is None else self.deadline - now

    @property
    def wait_seconds(self) -> int | None:
        """What `Prefer: wait` said: `issued_at` has lost its fraction, the deadline has not."""
        return None if self.deadline is None else int(self.deadline - self.issued_at)


def ticket_address(ticket: Ticket, server: str) -> str:
    """The URL of the waiting instance with the signed ticket in its query."""
    return f"{server}?{ticket_query(ticket)}"


def status_address(ticket: Ticket, server: str) -> str:
    """The URL that tells how the content stands. It waits for nothing, so that it needs no deadline."""
    return f"{server}{STATUS}?{ticket_query(replace(ticket, hop=1, deadline=None, respond_async=False))}"


def ticket_query(ticket: Ticket) -> str:
    """The signed ticket as a query string."""
    fields = _fields(ticket)
    signature = f"{ticket.issued_at}.{_signer().signature(_signed_text(fields, ticket.issued_at))}"
    return urlencode([*fields.items(), ("sig", signature)], quote_via=quote, safe="/:")


def read_ticket(query: bytes | str, *, now: float, max_age_seconds: float, hosts: frozenset[str]) -> Ticket:
    """Reads a query string. Raises TicketError: 400 when malformed, 403 when forged or too old.

    `hosts` are the hosts that an absolute `redirect` may name besides a path on this site.
    """
    given = _given(query)
    signature = _SIGNATURE.fullmatch(given["sig"])
    if not signature:
        raise TicketError("The parameter sig is malformed.", status=400)
    ticket = Ticket(
        redirect=_redirect(given["redirect"], hosts),
        retry_after=float(_matching(_MOMENT, given, "retry_after")),
        content_key=_key(given, "key"),
        work_key=_key(given, "work"),
        issued_at=int(signature[1]),
        hop=int(_matching(_HOP, given, "hop")),
        deadline=float(_matching(_MOMENT, given, "deadline")) if "deadline" in given else None,
        respond_async="async" in given and bool(_matching(_YES, given, "async")),
    )
    try:
        _signer().unsign(f"{_signed_text(given, ticket.issued_at)}:{signature[2]}")
    except BadSignature:
        raise TicketError("This ticket was not issued here.", status=403) from None
    if not now - max_age_seconds <= ticket.issued_at <= now + 60:
        raise TicketError("This ticket is too old. Ask for the content again.", status=403)
    return ticket


def _given(query: bytes | str) -> dict[str, str]:
    if len(query) > MAX_QUERY_BYTES:
        raise TicketError("The query string is too long.", status=400)
    try:
        text = query.decode("ascii") if isinstance(query, bytes) else query
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=20)
    except (ValueError, UnicodeError):
        raise TicketError("The query string is malformed.", status=400) from None
    names = [name for name, _ in pairs]
    for name in _NAMES:
        if names.count(name) != 1:
            how = "missing" if name not in names else "given more than once"
            raise TicketError(f"The parameter {name} is {how}.", status=400)
    for name in _OPTIONAL:
        if names.count(name) > 1:
            raise TicketError(f"The parameter {name} is given more than once.", status=400)
    return dict(pairs)


def _matching(pattern: re.Pattern[str], given: dict[str, str], name: str) -> str:
    if not pattern.fullmatch(given[name]):
        raise TicketError(f"The parameter {name} is malformed.", status=400)
    return given[name]


def is_key(value: str) -> bool:
    """Whether a ticket can name it: printable, without blanks, not too long."""
    return 0 < len(value) <= MAX_KEY_CHARACTERS and not _UNPRINTABLE.search(value)


def _key(given: dict[str, str], name: str) -> str:
    value = given[name]
    if not is_key(value):
        raise TicketError(f"The parameter {name} is malformed.", status=400)
    return value


def is_way_back(address: str) -> bool:
    """Whether a ticket can hold the address with all that it holds besides."""
    return len(address) <= MAX_REDIRECT_CHARACTERS and len(quote(address, safe="")) <= MAX_QUOTED_CHARACTERS


def _redirect(value: str, hosts: frozenset[str]) -> str:
    if not 0 < len(value) <= MAX_REDIRECT_CHARACTERS or _UNPRINTABLE.search(value):
        raise TicketError("The parameter redirect is malformed.", status=400)
    if value.startswith("/") and not value.startswith("//"):
        return value
    try:
        parts = urlsplit(value)
    except ValueError:
        raise TicketError("The parameter redirect is malformed.", status=400) from None
    if parts.scheme not in ("http", "https") or parts.netloc not in hosts:
        raise TicketError("The parameter redirect leaves this site.", status=400)
    return value


def _fields(ticket: Ticket) -> dict[str, str]:
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
    return fields


def _signed_text(fields: Mapping[str, str], issued_at: int) -> str:
    """What is signed: the text of the fields, not the numbers that it stands for."""
    return urlencode([*((name, fields[name]) for name in _SIGNED if name in fields), ("issued", issued_at)])


def _signer() -> Signer:
    return Signer(salt="retry.ticket")  # SECRET_KEY_FALLBACKS still verify: keys rotate
