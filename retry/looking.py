"""The one look that main and the waiting instance share: `state` first, then `cache`. PURE.

In this order nothing is missed: content is written before its claim ends. A look is a generator
that yields calls and is sent their replies, so that the same steps run in threads and in asyncio,
alone and many at once.
"""

from collections.abc import Generator
from dataclasses import dataclass

from . import contents, standings
from .scripts import Call, Reply

Steps = Generator[Call, Reply, "Found"]


@dataclass(frozen=True, slots=True)
class Found:
    """What there is: the content, fresh or stale, and how its work stands."""

    content: contents.Content | None
    standing: standings.Standing

    @property
    def word(self) -> str:
        """How the work stands, in a word for logs and Cache-Status."""
        return type(self.standing).__name__.lower()


def look(question: Call, content_key: str, *, with_body: bool) -> Steps:
    """Asks `state` the question, then looks for the content. Decides nothing."""
    standing = standings.standing((yield question))
    content = yield from contents.read(content_key, with_body=with_body)
    return Found(content, standing)
