"""Addresses of mirrored files: by digest, and by signed URL, so that strangers cannot have any URL fetched.

`/resources/<signature>/<URL>`: both in base64url without padding (RFC 4648, 5), exactly one spelling for each
URL. The signature is the first 128 bits of an HMAC-SHA256 over the URL, as it was given, but without a fragment. Keys
rotate: SECRET_KEY signs, SECRET_KEY_FALLBACKS are accepted.
"""

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from ..fetch.http import url_syntax
from . import public_files
from .canonical.urls import canonicalise_url
from .errors import ForgedError, MirrorAddressError, UrlError
from .public_files import ADDRESS_PREFIX
from .url_rules import current_rules

SIGNATURE_SALT = "resources.mirroring.address"
SIGNATURE_BYTES = 16
SIGNATURE_CHARACTERS = 22


def sign_url(url: str) -> str:
    """Returns the path under which this site mirrors the URL. Raises UrlError for a URL that it does not fetch."""
    url = url_syntax.cut_fragment(url)
    canonicalise_url(url, current_rules())
    try:
        data = url.encode()
    except UnicodeEncodeError as error:
        raise UrlError("The URL is not UTF-8.") from error
    return f"{ADDRESS_PREFIX}{_sign_with(url, settings.SECRET_KEY)}/{public_files.encode_base64url(data)}"


def verify_address(signature: str, encoded: str) -> str:
    """Returns the signed URL, without the fragment that older addresses may have.

    Raises MirrorAddressError if it is malformed, ForgedError if it was not signed here.
    """
    url = public_files.decode_url(encoded)
    if len(signature) != SIGNATURE_CHARACTERS:
        raise MirrorAddressError("The signature is malformed.")
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    if not any(constant_time_compare(signature, _sign_with(url, key)) for key in keys):
        raise ForgedError("This URL was not signed by this site.")
    return url_syntax.cut_fragment(url)


def _sign_with(url: str, key: str) -> str:
    digest = salted_hmac(SIGNATURE_SALT, url, secret=key, algorithm="sha256").digest()
    return public_files.encode_base64url(digest[:SIGNATURE_BYTES])
