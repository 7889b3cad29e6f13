"""rssCloud: what is asked of a cloud, what it answers, and what it calls. PURE.

By the walkthrough of rssCloud (2009) and its servers. A refusal is an answer of 200 that says `success="false"`.
"""

import json
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from lxml import etree

from . import xmlrpc
from .discovering import XML_RPC, Offer
from .renewing import CLOUD_LEASE, Answer, Granted, Missed, Refused

FORM, XML = "application/x-www-form-urlencoded", "text/xml"
NOTIFY_PROCEDURE = "rssCloud.notify"
MOST_WHY = 200
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent to the cloud's URL by POST."""

    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Way:
    """How a cloud is asked to call. With a domain it verifies that by a challenge.

    Without one it calls back the address that the request comes from, and tries that with a first call.
    """

    scheme: str
    port: int
    is_named: bool


def ways(callback: str) -> tuple[Way, ...]:
    """In which ways a cloud can be asked to call that URL, the best first.

    Many clouds know no https: they are given port 80, from where the front, or what is before it, sends them on.
    """
    address = urlsplit(callback)
    port = address.port or _PORTS[address.scheme]
    if address.scheme == "https":
        return Way("https", port, True), Way("http", _PORTS["http"], True), Way("http", _PORTS["http"], False)
    return Way("http", port, True), Way("http", port, False)


def request(offer: Offer, callback: str, way: int = 0) -> Request:
    """Asks the cloud to call `callback`, an absolute URL, when the feed changes, in that of the ways."""
    address, every = urlsplit(callback), ways(callback)
    chosen = every[way % len(every)]
    domain = (address.hostname or "") if chosen.is_named else ""
    if offer.procedure:
        given: list[xmlrpc.Value] = [NOTIFY_PROCEDURE, chosen.port, address.path, XML_RPC, [offer.topic]]
        return Request(XML, xmlrpc.call(offer.procedure, [*given, domain] if domain else given))
    fields = {
        "notifyProcedure": "",
        "registerProcedure": "",
        "port": str(chosen.port),
        "path": address.path,
        "protocol": f"{chosen.scheme}-post",
        "url1": offer.topic,
    }
    named = {"domain": domain} if domain else {}
    return Request(FORM, urlencode({**fields, **named}).encode())


def answer(body: bytes, *, was_called: bool, ways: int = 1) -> Answer:
    """What a cloud's answer of 2xx says. `was_called`: by XML-RPC. It can be asked in so many ways."""
    said = _called(body) if was_called else _noted(body)
    if said is None:
        return Missed("its answer says neither success nor failure.")
    success, why = said
    if success:
        return Granted(CLOUD_LEASE)
    return Refused(f"{why[:MOST_WHY].rstrip('.')}." if why else "it gives no reason.", ways)


def _called(body: bytes) -> tuple[bool, str] | None:
    try:
        value = xmlrpc.response(body)
    except xmlrpc.FaultError as fault:
        return False, str(fault)
    except ValueError:
        return None
    return value is True, ""


def _noted(body: bytes) -> tuple[bool, str] | None:
    """<notifyResult success="…" msg="…"/>, or the same as JSON."""
    try:
        if body.lstrip()[:1] == b"{":
            held = json.loads(body)
            return _said(held.get("success"), held.get("msg"))
        root = xmlrpc.tree(body)
    except (ValueError, RecursionError):  # JSON may be nested deeper than can be read
        return None
    found = next((each for each in root.iter(etree.Element) if each.get("success") is not None), None)
    return None if found is None else _said(found.get("success"), found.get("msg"))


def _said(success: object, why: object) -> tuple[bool, str] | None:
    if success is None:
        return None
    text = " ".join(str(why).split()) if isinstance(why, str) else ""
    return str(success).strip().lower() in {"true", "1"}, text
