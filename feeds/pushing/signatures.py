"""The signature of what a hub delivers (WebSub, 7.1): HMAC (RFC 2104) over the bytes as they came. PURE."""

import hashlib
import hmac
import re

HEADER = "X-Hub-Signature"
METHODS = ("sha1", "sha256", "sha384", "sha512")
MOST_SECRET_BYTES = 199
"""WebSub, 5.1: less than 200."""

_SIGNATURE = re.compile(rf"({'|'.join(METHODS)})=([0-9a-f]+)", re.ASCII | re.IGNORECASE)


def holds(signature: str, body: bytes, secret: str) -> bool:
    """Whether the field's value, `method=hex`, is that of the body. False without a secret: nothing is proven then.

    Takes as long for a wrong one as for a right one.
    """
    found = _SIGNATURE.fullmatch(signature.strip())
    if found is None or not secret:
        return False
    return hmac.compare_digest(sign(body, secret, found[1].lower()), f"{found[1]}={found[2]}".lower())


def sign(body: bytes, secret: str, method: str = "sha256") -> str:
    """The field's value."""
    return f"{method}={hmac.new(secret.encode(), body, getattr(hashlib, method)).hexdigest()}"
