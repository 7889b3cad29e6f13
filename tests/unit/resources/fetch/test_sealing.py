"""Values that are unreadable in the database."""

import pytest
from pytest_django import Settings

from resources.fetch import host_settings
from resources.fetch.http.messages import UnreadableSealError


def test_what_was_sealed_can_be_opened_and_not_be_read() -> None:
    sealed = host_settings.seal_value("Bearer ☃")
    assert host_settings.unseal_value(sealed) == "Bearer ☃"
    assert "Bearer" not in sealed
    assert host_settings.seal_value("Bearer ☃") != sealed


def test_keys_rotate(settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
    sealed = host_settings.seal_value("x")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
    assert host_settings.unseal_value(sealed) == "x"
    again = host_settings.reseal_value(sealed)
    assert host_settings.reseal_value(again) == again
    settings.SECRET_KEY_FALLBACKS = []
    assert host_settings.unseal_value(again) == "x"
    with pytest.raises(UnreadableSealError):
        host_settings.unseal_value(sealed)


@pytest.mark.parametrize("text", ["", "x", "gAAAAA==", "☃"])
def test_what_was_never_sealed_cannot_be_opened(text: str) -> None:
    with pytest.raises(UnreadableSealError):
        host_settings.unseal_value(text)


def test_the_key_is_of_its_own_purpose(settings: Settings) -> None:
    settings.SECRET_KEY = "a"
    sealed = host_settings.seal_value("x")
    settings.SECRET_KEY = "b"
    with pytest.raises(UnreadableSealError):
        host_settings.unseal_value(sealed)
