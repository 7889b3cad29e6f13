"""The text of tokens, and what is kept of it. PURE; knows no database."""

import re
import secrets
from dataclasses import dataclass
from hashlib import sha256

RANDOM_BYTES = 32
PREFIX_LENGTH = len("tarry_") + 8

_TOKEN = re.compile(r"tarry_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Kept:
    """What tells a token: how it begins, by which people recognise it, and the SHA-256 of all of it."""

    prefix: str
    digest: str

    @classmethod
    def of(cls, token: str) -> "Kept | None":
        """None for what was never issued here, whatever it is."""
        if not _TOKEN.fullmatch(token):
            return None
        # Plain SHA-256 is enough: 256 random bits cannot be guessed, however fast the guesses.
        return cls(token[:PREFIX_LENGTH], sha256(token.encode()).hexdigest())

    def is_digest(self, digest: str) -> bool:
        """Compares in a time that does not depend on where they differ."""
        return secrets.compare_digest(self.digest, digest)


def make_token() -> str:
    return f"tarry_{secrets.token_urlsafe(RANDOM_BYTES)}"
