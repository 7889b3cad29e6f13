"""XML-RPC, as much of it as rssCloud needs: calls with texts, numbers and lists, and what comes back. PURE.

Nothing that a document declares is expanded: what has a document type is refused.
"""

from collections.abc import Sequence

from lxml import etree

Value = str | int | Sequence[str]
MOST_BYTES = 65_536


class FaultError(ValueError):
    """The server answered with a fault. The text is what it says of it."""


def call(procedure: str, parameters: Sequence[Value]) -> bytes:
    """A call, as it is sent."""
    root = etree.Element("methodCall")
    etree.SubElement(root, "methodName").text = procedure
    given = etree.SubElement(root, "params")
    for parameter in parameters:
        _put(etree.SubElement(etree.SubElement(given, "param"), "value"), parameter)
    return _written(root)


def accepted() -> bytes:
    """The answer that says true."""
    root = etree.Element("methodResponse")
    given = etree.SubElement(etree.SubElement(etree.SubElement(root, "params"), "param"), "value")
    etree.SubElement(given, "boolean").text = "1"
    return _written(root)


def response(body: bytes) -> str | bool:
    """What a call returned: whether that is true, or a text. Raises FaultError, and ValueError for anything else."""
    root = tree(body)
    if root.tag != "methodResponse":
        raise ValueError("not an answer of XML-RPC")
    fault = root.find("fault")
    if fault is not None:
        raise FaultError(_fault(fault))
    value = root.find("params/param/value")
    if value is None:
        raise ValueError("an answer without a value")
    return _read(value)


def first_text(body: bytes) -> str | None:
    """The first parameter of a call, if that is a text. Raises ValueError for what is no call."""
    root = tree(body)
    if root.tag != "methodCall":
        raise ValueError("not a call of XML-RPC")
    value = root.find("params/param/value")
    found = None if value is None else _read(value)
    return found if isinstance(found, str) else None


def tree(body: bytes) -> etree._Element:
    """The document's root. Raises ValueError for what is no XML, is large, or declares a document type."""
    if len(body) > MOST_BYTES or b"<!DOCTYPE" in body:
        raise ValueError("more than is read")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise ValueError("not XML") from error
    if root.getroottree().docinfo.doctype:  # type: ignore[union-attr]  # types-lxml knows less
        raise ValueError("a document type")
    return root


def _put(value: etree._Element, given: Value) -> None:
    match given:
        case str():
            etree.SubElement(value, "string").text = given
        case int():
            etree.SubElement(value, "i4").text = str(given)
        case _:
            data = etree.SubElement(etree.SubElement(value, "array"), "data")
            for each in given:
                _put(etree.SubElement(data, "value"), each)


def _read(value: etree._Element) -> str | bool:
    """Without an element within, it is a text."""
    inner = next((each for each in value if isinstance(each.tag, str)), None)
    text = ((value if inner is None else inner).text or "").strip()
    if inner is not None and inner.tag in {"boolean", "i4", "int"}:
        return text.lower() in {"1", "true"}
    return text


def _fault(fault: etree._Element) -> str:
    for member in fault.iter("member"):
        value = member.find("value")
        if member.findtext("name") == "faultString" and value is not None:
            return " ".join(str(_read(value)).split())
    return "a fault."


def _written(root: etree._Element) -> bytes:
    return bytes(etree.tostring(root, xml_declaration=True, encoding="utf-8"))
