"""What feeds and their entries say, as JSON: how the database keeps it, and processes hand it on. PURE.

Empty fields are left out. Characters that databases do not keep (NUL, halves of surrogate pairs) go.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any

from .parsing.documents import Author, Category, Cloud, Enclosure, Entry, Feed, Point, Source

Json = dict[str, Any]

_UNKEPT = dict.fromkeys((0, *range(0xD800, 0xE000)))
_PARTS: Mapping[str, type[Any]] = {"authors": Author, "categories": Category, "enclosures": Enclosure}
_PART: Mapping[str, type[Any]] = {"source": Source, "point": Point, "cloud": Cloud}
_DATES = frozenset({"published", "updated"})


def entry_to_json(entry: Entry) -> Json:
    """The fields of an entry that say something."""
    return _written(entry)


def entry_from_json(data: Mapping[str, Any]) -> Entry:
    """The same entry. Fields of another version are passed over."""
    return Entry(**_read(data, Entry))


def size(written: Mapping[str, Any]) -> int:
    """How long it is as JSON, in characters."""
    return len(json.dumps(written, ensure_ascii=False))


def feed_to_json(feed: Feed) -> Json:
    return _written(feed)


def feed_from_json(data: Mapping[str, Any]) -> Feed:
    return Feed(**_read(data, Feed))


def clean(text: str) -> str:
    """Without characters that databases do not keep."""
    return text.translate(_UNKEPT)


def _written(value: Any) -> Json:
    found = {}
    for field in fields(value):
        one = getattr(value, field.name)
        if field.default is MISSING or one != field.default:
            found[field.name] = _plain(one)
    return found


def _plain(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case None | bool() | int() | float():
            return value
        case datetime():
            return value.isoformat()
        case tuple():
            return [_plain(one) for one in value]
    return _written(value)


def _read(data: Mapping[str, Any], kind: type[Any]) -> Json:
    known = {field.name for field in fields(kind)}
    return {name: _value(name, value) for name, value in data.items() if name in known}


def _value(name: str, value: Any) -> Any:
    if name in _DATES:
        return datetime.fromisoformat(value)
    if name in _PARTS:
        return tuple(_PARTS[name](**one) for one in value)
    if name in _PART:
        return _PART[name](**value)
    return tuple(value) if isinstance(value, list) else value
