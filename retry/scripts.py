"""The Lua scripts, each one atomic step of the protocol, as calls that any driver can carry out."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Literal

Server = Literal["state", "cache"]
Reply = object

_TEXTS = {path.stem: path.read_text() for path in (Path(__file__).parent / "lua").glob("*.lua")}
_DIGESTS = {name: sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in _TEXTS.items()}


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
