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


@dataclass(frozen=True, slots=True)
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


def join_calls(calls: Sequence[ScriptCall]) -> ScriptCall:
    """Returns one call with the items of all: calls of one script whose other arguments are alike."""
    return replace(calls[0], item=[part for call in calls for part in call.item])


register_scripts(Path(__file__).parent / "lua")
