"""Lua scripts, each one atomic step, as calls that any driver can carry out. PURE.

Those of the protocol are here under their own names. Another app registers a folder of its own, under
a namespace: `claim.lua` is then called `<namespace>.claim`.
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

_NEEDS = re.compile(r"^-- needs: ([a-z_ ]+)\n", re.MULTILINE)

_TEXTS: dict[str, str] = {}
_DIGESTS: dict[str, str] = {}


def register(folder: Path, namespace: str = "") -> None:
    """Makes all scripts of the folder known. Loads them into no server: that happens at their first call.

    A script whose first lines hold `-- needs: a b` begins with parts/a.lua and parts/b.lua, in that order.
    """
    parts = {path.stem: path.read_text() for path in (folder / PARTS).glob("*.lua")}
    for path in folder.glob("*.lua"):
        name = f"{namespace}.{path.stem}" if namespace else path.stem
        own = path.read_text()
        needed = _NEEDS.search(own)
        _TEXTS[name] = "".join(parts[part] for part in needed[1].split()) + own if needed else own
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
