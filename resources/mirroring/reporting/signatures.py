"""The signature of a webhook's body: HMAC-SHA-256 (RFC 2104) over the bytes as they are sent. PURE.

The secret is derived for a token: who has the token can ask for it, and nobody else's is the same.
"""

import hashlib
import hmac
from collections.abc import Iterable

HEADER = "Tarry-Signature"

_PURPOSE = b"tarry: webhooks\x00"


def secret(key: str, token_digest: str) -> str:
    """The secret of a token under a key of the site, as hexadecimal text: those characters are the HMAC's key."""
    return hmac.new(key.encode(), _PURPOSE + token_digest.encode(), hashlib.sha256).hexdigest()


def sign(secrets: Iterable[str], body: bytes) -> str:
    """The header's value: one signature for each of the secrets in force while keys rotate; one that holds is enough.

    `sha256=6b5f…, sha256=90ce…`
    """
    return ", ".join(f"sha256={hmac.new(one.encode(), body, hashlib.sha256).hexdigest()}" for one in secrets)
