"""Writes lists of feeds as OPML 2.0 (http://opml.org/spec2.opml). PURE."""

from collections.abc import Iterable
from datetime import datetime
from email.utils import format_datetime
from urllib.parse import quote
from xml.etree import ElementTree as ET

from ..addresses import Address
from . import mending
from .outlines import Path, Subscription


def write(
    subscriptions: Iterable[Subscription], title: str, created: datetime, *, with_passwords: bool = False
) -> bytes:
    """The list, in UTF-8. A feed of several categories stands in each of them. `created` is aware, in UTC.

    Users and passwords are left out unless they are asked for: lists are passed on.
    """
    opml = ET.Element("opml", version="2.0")
    head = ET.SubElement(opml, "head")
    ET.SubElement(head, "title").text = mending.clean(title)
    ET.SubElement(head, "dateCreated").text = format_datetime(created, usegmt=True)
    folders: dict[Path, ET.Element] = {(): ET.SubElement(opml, "body")}
    for subscription in subscriptions:
        attributes = _attributes(subscription, with_passwords=with_passwords)
        for path in subscription.categories or ((),):
            ET.SubElement(_folder(folders, path), "outline", attributes)
    ET.indent(opml)
    written: bytes = ET.tostring(opml, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _folder(folders: dict[Path, ET.Element], path: Path) -> ET.Element:
    for depth in range(1, len(path) + 1):
        if path[:depth] not in folders:
            name = mending.clean(path[depth - 1])
            folders[path[:depth]] = ET.SubElement(folders[path[: depth - 1]], "outline", text=name, title=name)
    return folders[path]


def _attributes(subscription: Subscription, *, with_passwords: bool) -> dict[str, str]:
    address = subscription.address
    said = {
        "type": "rss",  # for feeds of any format, as everybody does
        "text": subscription.title or address.url,  # which has to be there
        "title": subscription.title,
        "xmlUrl": _with_user(address) if with_passwords and address.user else address.url,
        "htmlUrl": subscription.site,
        "description": subscription.description,
        "language": subscription.language,
    }
    return {name: mending.clean(value) for name, value in said.items() if value}


def _with_user(address: Address) -> str:
    scheme, _, rest = address.url.partition("://")
    return f"{scheme}://{quote(address.user, safe='')}:{quote(address.password, safe='')}@{rest}"
