"""What clouds call (rssCloud): a challenge, or a ping. A ping flags the feed, and nothing more."""

from urllib.parse import parse_qs

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from ..keeping import pushes
from ..keeping.pushes import Pushed
from ..pushing import xmlrpc
from ..pushing.discovering import Kind
from ..pushing.rsscloud import FORM, XML
from . import debouncing
from .refusing import NO_SUBSCRIPTION, RefusedError, body_of, callback, nameable, text

MOST_BYTES = 8192
MOST_FIELDS = 20
MOST_CHALLENGE_CHARACTERS = 1000
XMLS = (XML, "application/xml")


@callback("GET", "POST")
def rsscloud(request: HttpRequest, token: str) -> HttpResponse:
    """`/rsscloud/<token>`: the challenge while the subscription is asked for; pings for the feed it is of."""
    return _challenge(request, token) if request.method == "GET" else _ping(request, token)


def _challenge(request: HttpRequest, token: str) -> HttpResponse:
    challenge = request.GET.get("challenge", "")
    if not challenge or len(challenge) > MOST_CHALLENGE_CHARACTERS:
        raise RefusedError(400, "A verification has `url` and `challenge`.")
    if not pushes.is_asked_for(token, nameable(request.GET.get("url", "")), timezone.now()):
        raise RefusedError(404, NO_SUBSCRIPTION)
    return text(challenge)


def _ping(request: HttpRequest, token: str) -> HttpResponse:
    body = body_of(request, (FORM, *XMLS), MOST_BYTES)
    is_called = (request.content_type or "").lower() in XMLS
    url = nameable(_called(body) if is_called else _sent(body))
    pushed = pushes.push(Kind.RSSCLOUD, token, url, timezone.now())
    if pushed is Pushed.UNKNOWN:
        raise RefusedError(404, NO_SUBSCRIPTION)
    debouncing.ask_for_scan(pushed)
    return text(xmlrpc.accepted(), XML) if is_called else text("OK\n")


def _sent(body: bytes) -> str:
    try:
        found = parse_qs(body.decode(), max_num_fields=MOST_FIELDS).get("url", [])
    except ValueError as error:  # bytes that are no UTF-8 are one, too
        raise RefusedError(400, "This is not a form.") from error
    if len(found) != 1:
        raise RefusedError(400, "A ping has one `url`.")
    return found[0]


def _called(body: bytes) -> str:
    try:
        url = xmlrpc.first_text(body)
    except ValueError as error:
        raise RefusedError(400, f"It cannot be read: {error}.") from error
    if not url:
        raise RefusedError(400, "The first parameter of the call is the URL of the feed.")
    return url
