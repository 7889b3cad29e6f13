"""The wire format of rssCloud: the registration at a cloud, its answer, and the part of XML-RPC that it needs.

Both sides are here: a subscriber's, for feeds of others, and a cloud's, for the feeds of this site.

By the walkthrough of rssCloud (2009) and its servers. A refusal is an answer of 200 that says `success="false"`. No
declared entity is expanded: documents with a document type are refused.
"""

import json
import re
from collections.abc import Mapping, Sequence
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


def read_call(body: bytes) -> tuple[str, list[str | list[str]]]:
    """Reads a call's procedure and parameters, as texts and lists of texts. Raises ValueError for anything else."""
    root = parse_tree(body)
    if root.tag != "methodCall":
        raise ValueError("not a call of XML-RPC")
    values = root.findall("params/param/value")
    return (root.findtext("methodName") or "").strip(), [_read_texts(value) for value in values]


def _read_texts(value: etree._Element) -> str | list[str]:
    data = value.find("array/data")
    return _element_text(value) if data is None else [_element_text(each) for each in data.findall("value")]


def _element_text(value: etree._Element) -> str:
    inner = next((each for each in value if isinstance(each.tag, str)), None)
    return ((value if inner is None else inner).text or "").strip()


def _read_value(value: etree._Element) -> str | bool:
    """A value without an element inside is a text."""
    inner, text = next((each for each in value if isinstance(each.tag, str)), None), _element_text(value)
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


HTTP_POST, HTTPS_POST = "http-post", "https-post"
REGISTER_PROCEDURE = "rssCloud.pleaseNotify"
MAX_REGISTERED_URLS = 10
_MAX_PATH_CHARACTERS = 1000
_HTTPS_PORT = 443
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_HOST = re.compile(r"[\w.:-]{0,253}")
_PROCEDURE = re.compile(r"[\w.:/-]{1,200}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CloudRegistration:
    """A subscriber's request to a cloud. Without a domain it is at the address that the request came from.

    `procedure` is called there by XML-RPC; empty for a form.
    """

    urls: tuple[str, ...]
    scheme: str
    port: int
    path: str
    domain: str = ""
    procedure: str = ""

    def callback_at(self, host: str) -> str:
        """The URL of its pings, at that host name or address."""
        named = f"[{host}]" if ":" in host else host
        default = _HTTPS_PORT if self.scheme == "https" else 80
        return f"{self.scheme}://{named}{'' if self.port == default else f':{self.port}'}{self.path}"


def read_registration_form(form: Mapping[str, Sequence[str]]) -> CloudRegistration:
    """Reads the form of a registration. Raises ValueError with a sentence for the sender."""
    given = {name: values[0].strip() for name, values in form.items() if values}
    urls = [given[name] for name in sorted(given) if name.startswith("url") and given[name]]
    named = {name: given.get(name, "") for name in ("domain", "notifyProcedure")}
    return _build_registration(urls, given.get("port", ""), given.get("path", ""), given.get("protocol", ""), named)


def read_registration_call(body: bytes) -> CloudRegistration:
    """Reads a call of rssCloud.pleaseNotify. Raises ValueError with a sentence for the sender."""
    try:
        procedure, given = read_call(body)
    except ValueError as error:
        raise ValueError(f"It cannot be read: {error}.") from error
    match [procedure, *given]:
        case ["rssCloud.pleaseNotify", str(notify), str(port), str(path), str(protocol), list(urls), *rest]:
            domain = rest[0] if rest and isinstance(rest[0], str) else ""
            return _build_registration(urls, port, path, protocol, {"domain": domain, "notifyProcedure": notify})
    raise ValueError(f"{REGISTER_PROCEDURE} takes procedure, port, path, protocol, a list of addresses, and a domain.")


def _build_registration(
    urls: Sequence[str], port: str, path: str, protocol: str, named: Mapping[str, str]
) -> CloudRegistration:
    if not 0 < len(urls) <= MAX_REGISTERED_URLS:
        raise ValueError(f"From 1 to {MAX_REGISTERED_URLS} feeds are registered at once (url1, url2, …).")
    if protocol not in {HTTP_POST, HTTPS_POST, XML_RPC}:
        raise ValueError(f"protocol must be {HTTP_POST}, {HTTPS_POST} or {XML_RPC}.")
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65_536:
        raise ValueError("port must be a number from 1 to 65535.")
    path = f"/{path.removeprefix('/')}"
    if len(path) > _MAX_PATH_CHARACTERS:
        raise ValueError(f"path has at most {_MAX_PATH_CHARACTERS:,} characters.")
    procedure = named["notifyProcedure"] if protocol == XML_RPC else ""
    if protocol == XML_RPC and not _PROCEDURE.fullmatch(procedure):
        raise ValueError("notifyProcedure is required for XML-RPC: up to 200 letters, digits and _.:/-.")
    if not _HOST.fullmatch(named["domain"]):
        raise ValueError("domain must be the name of a host.")
    scheme = "https" if protocol == HTTPS_POST or int(port) == _HTTPS_PORT else "http"
    return CloudRegistration(tuple(urls), scheme, int(port), path, named["domain"], procedure)


def write_notify_result(*, success: bool, message: str) -> bytes:
    """Writes a cloud's answer to a registration by form."""
    root = etree.Element("notifyResult")
    root.set("success", "true" if success else "false")
    root.set("msg", message)
    return _serialise_tree(root)


def write_fault(message: str) -> bytes:
    """Writes a cloud's refusal of a registration by XML-RPC."""
    root = etree.Element("methodResponse")
    struct = etree.SubElement(etree.SubElement(etree.SubElement(root, "fault"), "value"), "struct")
    for name, value in (("faultCode", 4), ("faultString", message)):
        member = etree.SubElement(struct, "member")
        etree.SubElement(member, "name").text = name
        _put_value(etree.SubElement(member, "value"), value)
    return _serialise_tree(root)


def write_ping(topic: str, procedure: str) -> tuple[str, bytes]:
    """Returns the type and body of a ping: a call of that procedure, or a form without one."""
    return (XML_TYPE, write_call(procedure, [topic])) if procedure else (FORM_TYPE, urlencode({"url": topic}).encode())


def write_challenge(callback: str, topic: str, challenge: str) -> str:
    """The URL by which a cloud verifies a subscriber that has named its domain."""
    return f"{callback}{'&' if '?' in callback else '?'}{urlencode({'url': topic, 'challenge': challenge})}"


def is_call_accepted(body: bytes) -> bool:
    """Tells whether the answer of a called subscriber is `true`."""
    return _read_xmlrpc_result(body) == (True, "")
