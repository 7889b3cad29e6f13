"""Lua scripts, each one atomic step, as calls that any driver can carry out. PURE.

Those of the protocol are here under their own names. Another app registers a folder of its own, under
a namespace: `claim.lua` is then called `<namespace>.claim`. Its scripts may do, in their own step, what the protocol's
parts do: `retry.starting` is lua/parts/starting.lua here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Literal

Server = Literal["state", "cache"]
Reply = object

PARTS = "parts"
"""The folder in a folder of scripts that holds what several of them need."""

PROTOCOL = "retry"
"""The namespace that the protocol's own parts have for other apps."""

_NEEDS = re.compile(r"^-- needs: ([a-z_. ]+)\n", re.MULTILINE)

_PARTS: dict[str, str] = {}
_TEXTS: dict[str, str] = {}
_DIGESTS: dict[str, str] = {}


def register(folder: Path, namespace: str = "") -> None:
    """Makes all scripts of the folder known. Loads them into no server: that happens at their first call.

    A script whose first lines hold `-- needs: a b.c` begins with parts/a.lua of its own folder and parts/c.lua of the
    one that is registered as b, in that order. Raises KeyError for a part that is not there.
    """
    own = namespace or PROTOCOL
    _PARTS.update({f"{own}.{path.stem}": path.read_text() for path in (folder / PARTS).glob("*.lua")})
    for path in folder.glob("*.lua"):
        name = f"{namespace}.{path.stem}" if namespace else path.stem
        text = path.read_text()
        needed = _NEEDS.search(text)
        parts = [part if "." in part else f"{own}.{part}" for part in needed[1].split()] if needed else []
        _TEXTS[name] = "".join(_PARTS[part] for part in parts) + text
        _DIGESTS[name] = sha1(_TEXTS[name].encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Call:
    """One script to be run on one server. Does not run it: connections.py does."""

    server: Server
    script: str
    keys: Sequence[str]
    arguments: Sequence[str | int | float | bytes] = ()

    def by_digest(self) -> tuple[str | int | float | bytes, ...]:
        return ("EVALSHA", _DIGESTS[self.script], len(self.keys), *self.keys, *self.arguments)

    def by_text(self) -> tuple[str | int | float | bytes, ...]:
        """For a server that has not seen the script yet, or lost it in a restart."""
        return ("EVAL", _TEXTS[self.script], len(self.keys), *self.keys, *self.arguments)


register(Path(__file__).parent / "lua")
