"""Adds lines up to what is counted. PURE."""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

from retry import decaying, periods

from . import lines
from .asked import Asked

Name = Callable[[str], Asked | None]
"""Tells what an address asks for; None for nothing that is counted by name."""

Group = tuple[str, str]
"""Kind and group."""

OTHER = Asked("other")
MAX_KEY_CHARACTERS = 500
MAX_GROUP_CHARACTERS = 100

_BLANK = re.compile(r"\s")


@dataclass(slots=True)
class Tally:
    """Requests by group, answer and period; weights by content key; what is noted by kind; lines nobody could read."""

    hits: dict[tuple[Group, lines.Answer, int], int] = field(default_factory=lambda: defaultdict(int))
    wishes: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    noted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unreadable: int = 0


def tally(data: bytes, now: float, half_life_seconds: float, name: Name) -> Tally:
    """Adds whole lines up, with weights as of now."""
    alike: dict[tuple[bytes, bytes, bytes, bytes, bytes], list[float]] = defaultdict(list)
    for moment, *rest in lines.parse(data):
        status, cache_status, method, reader, address = rest
        alike[status, cache_status, method, reader, address].append(float(moment))
    whole = Tally(unreadable=data.count(b"\n") + 1 - sum(len(moments) for moments in alike.values()))
    for (status, cache_status, method, reader, address), moments in alike.items():
        asked, answer = named(address, name), lines.answer_of(status, cache_status, method)
        for ended, group in product(moments, _groups(asked)):
            whole.hits[group, answer, periods.period(ended, now)] += 1
        if asked.content_key and answer.wanted:
            whole.wishes[asked.content_key] += sum(decaying.weight(now - each, half_life_seconds) for each in moments)
        if asked.noted and answer.wanted:
            whole.noted[asked.kind].add(f"{asked.noted} {reader.decode()}" if reader else asked.noted)
    return whole


def named(escaped_address: bytes, name: Name) -> Asked:
    """What the address asks for, in a form that can be counted."""
    address = lines.address(escaped_address)
    asked = name(address) if address is not None else None
    if asked is None or not asked.kind or _BLANK.search(asked.kind):
        return OTHER
    group = _BLANK.sub("_", asked.group)[:MAX_GROUP_CHARACTERS]
    content_key = asked.content_key if len(asked.content_key) <= MAX_KEY_CHARACTERS else ""
    return Asked(asked.kind, group, content_key, asked.noted, _BLANK.sub("_", asked.part)[:MAX_GROUP_CHARACTERS])


def _groups(asked: Asked) -> list[Group]:
    """What it is counted under."""
    whole = (asked.kind, asked.group)
    return [whole, (f"{asked.kind}{periods.PARTS}", f"{asked.group}/{asked.part}")] if asked.part else [whole]
