"""Lua scripts, each one atomic step, as calls that any driver can run. PURE.

The protocol's scripts have plain names. Another app registers its own folder under a namespace: `claim.lua` is then
called `<namespace>.claim`. Its scripts may include the protocol's parts: `retry.claim_start` is
lua/parts/claim_start.lua.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha1
from pathlib import Path
from typing import Literal

from .records import frozen_record

Server = Literal["state", "cache"]
Reply = object

PARTS_FOLDER = "parts"
"""The subfolder of a folder of scripts with the parts that several of them include."""

PROTOCOL_NAMESPACE = "retry"
"""The namespace of the protocol's own parts for other apps."""

_NEEDS = re.compile(r"^-- needs: ([a-z_. ]+)\n", re.MULTILINE)

_PARTS: dict[str, str] = {}
_TEXTS: dict[str, str] = {}
_DIGESTS: dict[str, str] = {}


def register_scripts(folder: Path, namespace: str = "") -> None:
    """Registers all scripts of the folder. A server gets a script at its first call.

    A script with the line `-- needs: a b.c` begins with parts/a.lua of its own folder and parts/c.lua of the folder
    registered as b, in that order. Raises KeyError for a missing part.
    """
    own = namespace or PROTOCOL_NAMESPACE
    _PARTS.update({f"{own}.{path.stem}": path.read_text() for path in (folder / PARTS_FOLDER).glob("*.lua")})
    for path in folder.glob("*.lua"):
        name = f"{namespace}.{path.stem}" if namespace else path.stem
        text = path.read_text()
        needed = _NEEDS.search(text)
        parts = [part if "." in part else f"{own}.{part}" for part in needed[1].split()] if needed else []
        _TEXTS[name] = "".join(_PARTS[part] for part in parts) + text
        _DIGESTS[name] = sha1(_TEXTS[name].encode(), usedforsecurity=False).hexdigest()


@frozen_record
class ScriptCall:
    """One script to run on one server. Does not run it: the stores do.

    `item` has further arguments, of a script that takes them for several items, with the other arguments for all of
    them. Its reply is a list with the reply for each item, or that item's error.
    """

    server: Server
    script: str
    keys: Sequence[str]
    arguments: Sequence[str | int | float | bytes] = ()
    item: Sequence[str | int | float | bytes] = ()

    def by_digest(self) -> tuple[str | int | float | bytes, ...]:
        return ("EVALSHA", _DIGESTS[self.script], len(self.keys), *self.keys, *self.arguments, *self.item)

    def by_text(self) -> tuple[str | int | float | bytes, ...]:
        """The command for a server that has not seen the script yet, or lost it in a restart."""
        return ("EVAL", _TEXTS[self.script], len(self.keys), *self.keys, *self.arguments, *self.item)


MAX_ITEMS_PER_CALL = 32
"""Items of one call of a script: it keeps Redis busy for a few ms."""


@dataclass(frozen=True, slots=True)
class JoinedCalls:
    """Calls, of which those for items of one script, with their other arguments alike, are one call.

    `places` are those of each call's items among the calls that were joined.
    """

    calls: Sequence[ScriptCall]
    places: Sequence[Sequence[int]]

    def split_replies(self, replies: Sequence[Reply]) -> list[Reply]:
        """Returns the replies of the calls that were joined; each of several items has a list with its own."""
        found: list[Reply] = [None] * sum(map(len, self.places))
        for places, reply in zip(self.places, replies, strict=True):
            each = [[part] for part in reply] if len(places) > 1 and isinstance(reply, list) else [reply] * len(places)
            for place, part in zip(places, each, strict=True):
                found[place] = part
        return found


def join_calls(calls: Sequence[ScriptCall], most: int = MAX_ITEMS_PER_CALL) -> JoinedCalls:
    """Joins calls for items, so many at most, in the order of the first of each call."""
    groups, open_groups = list[list[int]](), dict[str, list[int]]()
    for place, call in enumerate(calls):
        group = open_groups.get(call.script) if call.item else None
        if group is None or len(group) == most:
            groups.append(group := [])
            if call.item:
                open_groups[call.script] = group
        group.append(place)
    return JoinedCalls([_join([calls[place] for place in group]) for group in groups], groups)


def _join(calls: Sequence[ScriptCall]) -> ScriptCall:
    return calls[0] if len(calls) == 1 else replace(calls[0], item=[part for call in calls for part in call.item])


register_scripts(Path(__file__).parent / "lua")
