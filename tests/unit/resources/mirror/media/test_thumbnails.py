"""Thumbnail addresses: parameters, keys and refusals."""

import pytest

from resources.mirror.errors import ThumbnailError
from resources.mirror.media.thumbnails import Thumbnail
from retry.tickets import MAX_KEY_CHARACTERS

DIGEST = "0123456789abcdef" * 4


def read(name: str, **given: list[str]) -> Thumbnail:
    return Thumbnail.read(DIGEST, name, given, 2048)


def test_the_address_says_the_box_the_format_and_the_fit() -> None:
    assert read("320x240.webp") == Thumbnail(DIGEST, 320, 240, "webp", "contain")
    assert read("1x2048.jpeg", fit=["crop"]) == Thumbnail(DIGEST, 1, 2048, "jpeg", "crop")


def test_the_same_thumbnail_has_one_key_and_others_have_others() -> None:
    assert read("320x240.webp", fit=["contain"]).content_key == read("320x240.webp").content_key
    names = ("320x240.webp", "320x241.webp", "320x240.png")
    keys = {read(name, fit=[fit]).content_key for name in names for fit in ("contain", "crop")}
    assert len(keys) == 6
    assert max(map(len, keys)) < MAX_KEY_CHARACTERS


GIVEN: list[dict[str, list[str]]] = [{"fit": ["fill"]}, {"fit": ["crop", "crop"]}, {"fit": []}, {"size": ["1"]}]
NAMES = [
    *("", "320x240", "320.webp", "320x240.gif", "320x240.jpg", "320x240.WEBP", "320X240.webp", "0x10.png"),
    *("010x10.png", "-1x10.png", "1e2x10.png", "٣x10.png", "320x240.webp/", "320x240.webp\n", "2049x1.png"),
    *("99999999999x1.png", "../320x240.webp"),
]


@pytest.mark.parametrize(
    ("name", "given"), [*((name, {}) for name in NAMES), *(("320x240.webp", given) for given in GIVEN)]
)
def test_what_names_no_thumbnail_or_gives_other_parameters_is_refused(name: str, given: dict[str, list[str]]) -> None:
    with pytest.raises(ThumbnailError):
        read(name, **given)
