"""Seals values of headers for the database. The keys are derived from SECRET_KEY and SECRET_KEY_FALLBACKS.

What was sealed with a fallback can still be opened; resealed() writes it with the first key.
"""

from base64 import urlsafe_b64encode
from functools import cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from ..errors import UnreadableSealError

PURPOSE = b"tarry: headers of fetches"


def seal(text: str) -> str:
    """The text, encrypted and authenticated (Fernet)."""
    return _keys()[0].encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """What was sealed. Raises UnreadableSealError: none of today's keys has sealed it."""
    try:
        return MultiFernet(_keys()).decrypt(sealed).decode()
    except (InvalidToken, ValueError) as error:
        raise UnreadableSealError("a sealed value cannot be opened: its key is gone") from error


def resealed(sealed: str) -> str:
    """The same value sealed with the first key; the very same text where that is so already."""
    try:
        _keys()[0].decrypt(sealed)
    except InvalidToken:
        return seal(unseal(sealed))
    return sealed


def _keys() -> list[Fernet]:
    return [_key(secret) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


@cache
def _key(secret: str) -> Fernet:
    """HKDF (RFC 5869) without salt: the secret is as good as random, and the purpose keeps its uses apart."""
    derived = HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret.encode())
    return Fernet(urlsafe_b64encode(derived))
