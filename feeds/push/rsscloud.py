"""The wire format of rssCloud: the registration at a cloud, its answer, and the part of XML-RPC that it needs.

By the walkthrough of rssCloud (2009) and its servers. A refusal is an answer of 200 that says `success="false"`. No
declared entity is expanded: documents with a document type are refused.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from lxml import etree

from .leases import CLOUD_LEASE, LeaseGranted, PushAnswer, RequestMissed, RequestRefused
from .offers import XML_RPC, PushOffer

XmlRpcValue = str | int | Sequence[str]
MAX_XMLRPC_BYTES = 65_536


def write_call(procedure: str, parameters: Sequence[XmlRpcValue]) -> bytes:
    root = etree.Element("methodCall")
    etree.SubElement(root, "methodName").text = procedure
    given = etree.SubElement(root, "params")
    for parameter in parameters:
        _put_value(etree.SubElement(etree.SubElement(given, "param"), "value"), parameter)
    return _serialise_tree(root)


def write_acceptance() -> bytes:
    """Writes the answer `true`."""
    root = etree.Element("methodResponse")
    given = etree.SubElement(etree.SubElement(etree.SubElement(root, "params"), "param"), "value")
    etree.SubElement(given, "boolean").text = "1"
    return _serialise_tree(root)


def read_first_text(body: bytes) -> str | None:
    """Reads the first parameter of a call, if that is a text. Raises ValueError for anything but a call."""
    root = parse_tree(body)
    if root.tag != "methodCall":
        raise ValueError("not a call of XML-RPC")
    value = root.find("params/param/value")
    found = None if value is None else _read_value(value)
    return found if isinstance(found, str) else None


def parse_tree(body: bytes) -> etree._Element:
    """Parses a document. Raises ValueError if it is no XML, is too large, or declares a document type."""
    if len(body) > MAX_XMLRPC_BYTES or b"<!DOCTYPE" in body:
        raise ValueError("more than is read")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise ValueError("not XML") from error
    if root.getroottree().docinfo.doctype:  # type: ignore[union-attr]  # types-lxml knows less
        raise ValueError("a document type")
    return root


def _put_value(value: etree._Element, given: XmlRpcValue) -> None:
    match given:
        case str():
            etree.SubElement(value, "string").text = given
        case int():
            etree.SubElement(value, "i4").text = str(given)
        case _:
            data = etree.SubElement(etree.SubElement(value, "array"), "data")
            for each in given:
                _put_value(etree.SubElement(data, "value"), each)


def _read_value(value: etree._Element) -> str | bool:
    """A value without an element inside is a text."""
    inner = next((each for each in value if isinstance(each.tag, str)), None)
    text = ((value if inner is None else inner).text or "").strip()
    if inner is not None and inner.tag in {"boolean", "i4", "int"}:
        return text.lower() in {"1", "true"}
    return text


def _fault_text(fault: etree._Element) -> str:
    for member in fault.iter("member"):
        value = member.find("value")
        if member.findtext("name") == "faultString" and value is not None:
            return " ".join(str(_read_value(value)).split())
    return "a fault."


def _serialise_tree(root: etree._Element) -> bytes:
    return bytes(etree.tostring(root, xml_declaration=True, encoding="utf-8"))


FORM_TYPE, XML_TYPE = "application/x-www-form-urlencoded", "text/xml"
NOTIFY_PROCEDURE = "rssCloud.notify"
MAX_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class CallbackWay:
    """A way in which a cloud is asked to call. With a domain it verifies that by a challenge.

    Without one it calls the address that the request came from, and tests that with a first call.
    """

    scheme: str
    port: int
    is_named: bool


def callback_ways(callback: str) -> tuple[CallbackWay, ...]:
    """The ways in which a cloud can be asked to call that URL, the best first.

    Many clouds know no https: they are given port 80, from where the front, or a proxy before it, redirects them.
    """
    address = urlsplit(callback)
    port = address.port or (443 if address.scheme == "https" else 80)
    if address.scheme == "https":
        return CallbackWay("https", port, True), CallbackWay("http", 80, True), CallbackWay("http", 80, False)
    return CallbackWay("http", port, True), CallbackWay("http", port, False)


def write_registration(offer: PushOffer, callback: str, way: int = 0) -> tuple[str, bytes]:
    """Returns the type and body of the registration: the cloud is to call `callback`, in the way with this index."""
    address, every = urlsplit(callback), callback_ways(callback)
    chosen = every[way % len(every)]
    domain = (address.hostname or "") if chosen.is_named else ""
    if offer.procedure:
        given: list[XmlRpcValue] = [NOTIFY_PROCEDURE, chosen.port, address.path, XML_RPC, [offer.topic]]
        return XML_TYPE, write_call(offer.procedure, [*given, domain] if domain else given)
    fields = {
        "notifyProcedure": "",
        "registerProcedure": "",
        "port": str(chosen.port),
        "path": address.path,
        "protocol": f"{chosen.scheme}-post",
        "url1": offer.topic,
    }
    named = {"domain": domain} if domain else {}
    return FORM_TYPE, urlencode({**fields, **named}).encode()


def read_registration_answer(body: bytes, *, was_called: bool, ways: int = 1) -> PushAnswer:
    """Reads a cloud's answer of 2xx. `was_called`: the request was XML-RPC. `ways` is the number of ways."""
    result = _read_xmlrpc_result(body) if was_called else _read_notify_result(body)
    if result is None:
        return RequestMissed("its answer says neither success nor failure.")
    success, why = result
    if success:
        return LeaseGranted(CLOUD_LEASE)
    return RequestRefused(f"{why[:MAX_REASON_CHARACTERS].rstrip('.')}." if why else "it gives no reason.", ways)


def _read_xmlrpc_result(body: bytes) -> tuple[bool, str] | None:
    """Reads the result of a call: success is `true`, a fault is a refusal with the server's text."""
    try:
        root = parse_tree(body)
    except ValueError:
        return None
    if root.tag != "methodResponse":
        return None
    fault, value = root.find("fault"), root.find("params/param/value")
    if fault is not None:
        return False, _fault_text(fault)
    return None if value is None else (_read_value(value) is True, "")


def _read_notify_result(body: bytes) -> tuple[bool, str] | None:
    """Reads <notifyResult success="…" msg="…"/>, or the same as JSON."""
    try:
        if body.lstrip()[:1] == b"{":
            held = json.loads(body)
            return _read_success(held.get("success"), held.get("msg"))
        root = parse_tree(body)
    except (ValueError, RecursionError):  # JSON may be nested deeper than can be read
        return None
    found = next((each for each in root.iter(etree.Element) if each.get("success") is not None), None)
    return None if found is None else _read_success(found.get("success"), found.get("msg"))


def _read_success(success: object, why: object) -> tuple[bool, str] | None:
    if success is None:
        return None
    text = " ".join(str(why).split()) if isinstance(why, str) else ""
    return str(success).strip().lower() in {"true", "1"}, text
