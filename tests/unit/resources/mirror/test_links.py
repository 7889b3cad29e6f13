"""Signed addresses: one for each URL, readable only as they were written, and signed by keys that rotate."""

import io
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from django.template import Context, Template
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.mirror import links, public_files
from resources.mirror.errors import ForgedError, MirrorAddressError, UrlError
from resources.traffic.asked import Asked

URL = "http://origin.example/a%20b.png?x=1&y=ü"
DIGEST = "ab" * 32

pytestmark = pytest.mark.django_db


def parts(address: str) -> tuple[str, str]:
    beginning, signature, encoded = address.lstrip("/").split("/")
    assert beginning == "resources"
    return signature, encoded


@settings(max_examples=50)
@given(st.text(min_size=1, max_size=400))
def test_any_text_is_written_in_one_way(text: str) -> None:
    encoded = public_files.encode_base64url(text.encode())
    assert public_files.decode_url(encoded) == text
    assert not {"/", ".", "=", "+"} & set(encoded)


@settings(max_examples=50)
@given(st.text("Aab_-=+ \n", max_size=8))
def test_what_is_read_was_written_so(encoded: str) -> None:
    try:
        url = public_files.decode_url(encoded)
    except MirrorAddressError:
        return
    assert public_files.encode_base64url(url.encode()) == encoded


@pytest.mark.parametrize("encoded", ["", "a", "YQ==", "YR", "Y Q", "_w", "YQ\n", "é", "a" * 3000])
def test_what_is_malformed_is_refused(encoded: str) -> None:
    with pytest.raises(MirrorAddressError):
        public_files.decode_url(encoded)


def test_another_url_or_signature_is_forged() -> None:
    signature, encoded = parts(links.sign_url(URL))
    other = urlsafe_b64encode(b"http://origin.example/b").decode().rstrip("=")
    for forged in ((signature, other), ("A" * 22, encoded), (signature[::-1], encoded), ("é" * 22, encoded)):
        with pytest.raises(ForgedError):
            links.verify_address(*forged)
    with pytest.raises(MirrorAddressError, match="malformed"):
        links.verify_address(signature[:-1], encoded)


def test_keys_rotate(settings: Any) -> None:
    signed = parts(links.sign_url(URL))
    assert links.verify_address(*signed) == URL
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", [settings.SECRET_KEY]
    assert links.verify_address(*signed) == URL
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(ForgedError):
        links.verify_address(*signed)
    assert links.verify_address(*parts(links.sign_url(URL))) == URL


def test_a_fragment_is_neither_signed_nor_read_from_an_address_that_has_one() -> None:
    assert links.sign_url(f"{URL}#part") == links.sign_url(URL)
    older = f"{URL}#part"
    signed = links._sign_with(older, django_settings.SECRET_KEY), public_files.encode_base64url(older.encode())
    assert links.verify_address(*signed) == URL


@pytest.mark.parametrize("url", ["", "a.png", "ftp://origin.example/a", "http://origin.example/" + "ü" * 1500])
def test_what_cannot_be_mirrored_is_not_signed(url: str) -> None:
    with pytest.raises(UrlError):
        links.sign_url(url)


def test_the_command_signs_what_it_can_and_names_the_rest(settings: Any) -> None:
    settings.PUBLIC_URL = "https://files.example"
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(CommandError, match="1 of 2"):
        call_command("sign_url", URL, "nonsense", stdout=out, stderr=err)
    assert out.getvalue().strip() == f"https://files.example{links.sign_url(URL)}"
    assert err.getvalue().startswith("nonsense: ")


def test_a_template_has_the_address_and_none_for_nonsense() -> None:
    text = Template('{% load mirrored %}<img src="{% mirrored url %}">')
    assert text.render(Context({"url": URL})) == f'<img src="{links.sign_url(URL)}">'
    assert text.render(Context({"url": "nonsense"})) == '<img src="">'


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (f"/resources/{DIGEST}", Asked("blob", noted=DIGEST)),
        (
            f"/resources/{DIGEST}/100x90.webp",
            Asked("thumbnail", content_key=f"thumbnail:{DIGEST}:100x90:contain:webp", noted=DIGEST),
        ),
        (
            f"/resources/{DIGEST}/100x90.webp?fit=crop",
            Asked("thumbnail", content_key=f"thumbnail:{DIGEST}:100x90:crop:webp", noted=DIGEST),
        ),
        (f"/resources/{DIGEST}/100x90.gif", Asked("thumbnail", noted=DIGEST)),
        ("/resources/sig/aHR0cDovL2EuZXhhbXBsZS8", Asked("resource", noted="http://a.example/")),
        ("/resources/sig/!", None),
        (f"/resources/{DIGEST.upper()}", None),
        ("/resources/", None),
        (f"/resources/{DIGEST}/a/b", None),
    ],
)
def test_an_address_is_counted_by_its_kind(address: str, expected: Asked | None) -> None:
    assert public_files.classify_address(address) == expected
