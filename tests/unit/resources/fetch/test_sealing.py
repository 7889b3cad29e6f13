"""Values that the database may hold, and nobody reads there."""

import pytest
from pytest_django import Settings

from resources.fetching.errors import UnreadableSealError
from resources.fetching.keeping import sealing


def test_what_was_sealed_can_be_opened_and_not_be_read() -> None:
    sealed = sealing.seal("Bearer ☃")
    assert sealing.unseal(sealed) == "Bearer ☃"
    assert "Bearer" not in sealed
    assert sealing.seal("Bearer ☃") != sealed


def test_keys_rotate(settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
    sealed = sealing.seal("x")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
    assert sealing.unseal(sealed) == "x"
    again = sealing.resealed(sealed)
    assert sealing.resealed(again) == again
    settings.SECRET_KEY_FALLBACKS = []
    assert sealing.unseal(again) == "x"
    with pytest.raises(UnreadableSealError):
        sealing.unseal(sealed)


@pytest.mark.parametrize("text", ["", "x", "gAAAAA==", "☃"])
def test_what_was_never_sealed_cannot_be_opened(text: str) -> None:
    with pytest.raises(UnreadableSealError):
        sealing.unseal(text)


def test_the_key_is_of_its_own_purpose(settings: Settings) -> None:
    settings.SECRET_KEY = "a"
    sealed = sealing.seal("x")
    settings.SECRET_KEY = "b"
    with pytest.raises(UnreadableSealError):
        sealing.unseal(sealed)
