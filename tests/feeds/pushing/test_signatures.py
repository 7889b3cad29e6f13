"""Signatures of deliveries, by every method of WebSub."""

import hashlib
import hmac

import pytest

from feeds.pushing.signatures import METHODS, holds, sign

BODY, SECRET = b"<feed>\xff\x00</feed>\n", "s3cret"


@pytest.mark.parametrize("method", METHODS)
def test_a_signature_by_each_method_holds(method: str) -> None:
    digest = hmac.new(SECRET.encode(), BODY, getattr(hashlib, method)).hexdigest()
    assert holds(f"{method}={digest}", BODY, SECRET)
    assert holds(f"{method.upper()}={digest.upper()}", BODY, SECRET)
    assert not holds(f"{method}={digest}", BODY + b"\n", SECRET)
    assert not holds(f"{method}={digest}", BODY, "another")


def test_a_signature_is_that_of_rfc_2202_and_4231() -> None:
    text = b"what do ya want for nothing?"
    assert sign(text, "Jefe", "sha1") == "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
    assert sign(text, "Jefe") == "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


@pytest.mark.parametrize(
    "signature",
    [
        *("", "sha256", "sha256=", "=", "md5=5d41402abc4b2a76b9719d911017c592", "sha256=zz", "sha256=é", "sha3_256=00"),
        sign(BODY, SECRET)[:-1],
        sign(BODY, SECRET) + "0",
        sign(BODY, SECRET).replace("sha256", "sha512"),
        sign(BODY, SECRET).partition("=")[2],
        f"{sign(BODY, SECRET)}, {sign(BODY, SECRET)}",
    ],
)
def test_what_is_no_signature_of_the_body_does_not_hold(signature: str) -> None:
    assert not holds(signature, BODY, SECRET)


def test_nothing_is_proven_without_a_secret() -> None:
    assert not holds(sign(BODY, ""), BODY, "")
