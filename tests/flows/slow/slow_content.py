"""The parameters of slow content."""

import base64
from dataclasses import dataclass

from django.http import QueryDict

IMAGE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""


@dataclass(frozen=True, slots=True)
class SlowContent:
    """Duration, size and failure. JSON-able as a tuple.

    Gated content is not ready before its gate is opened, or a minute has passed.
    """

    name: str
    seconds: float = 0
    size: int = 100
    behaviour: str = "ok"
    fresh: float = 3600
    stale: float = 3600
    version: int = 0
    gated: int = 0

    @classmethod
    def from_query(cls, name: str, asked: QueryDict) -> "SlowContent":
        return cls(
            name,
            float(asked.get("seconds", 0)),
            int(asked.get("size", 100)),
            asked.get("behaviour", "ok"),
            float(asked.get("fresh", 3600)),
            float(asked.get("stale", 3600)),
            int(asked.get("version", 0)),
            int(asked.get("gated", 0)),
        )

    @property
    def arguments(self) -> tuple[str | int | float, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    @property
    def body(self) -> bytes:
        """The content under the name: its text again and again, which `picture` calls a picture, or an image."""
        if self.behaviour == "image":
            return IMAGE
        word = f"{self.name}.{self.version} ".encode()
        return (word * (self.size // len(word) + 1))[: self.size]

    def numbered_body(self, execution: int) -> bytes:
        """The content if each execution is to be told from the others."""
        return f"{self.name} {execution}".encode()
