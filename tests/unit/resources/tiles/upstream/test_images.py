"""Images from upstreams: accepted sizes and formats, damage, and conversion to WebP."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile

from resources.image_formats import UPSTREAM_FORMATS
from resources.tiles.errors import UpstreamImageError
from resources.tiles.upstream import images
from tests.hostile import files
from tests.unit.resources.conftest import image

FORMATS = {
    "PNG": image(),
    "JPEG": image(image_format="JPEG"),
    "WEBP": image(image_format="WEBP"),
    "GIF": image(image_format="GIF"),
    "progressive": image(image_format="JPEG", progressive=True),
    "palette": image(mode="P"),
}


@pytest.mark.parametrize("body", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("padding", [b"", b"\0\0\r\n"], ids=["alone", "padded"])
def test_a_tile_is_taken_as_it_came(body: bytes, padding: bytes) -> None:
    picture = images.read_tile_image(body + padding, 1)
    assert picture.body == body + padding
    assert picture.content_type in {each.media_type for each in UPSTREAM_FORMATS.values()}
    assert images.convert_image(picture, "png") is picture


@pytest.mark.parametrize(("side", "scale"), [(256, 1), (512, 1), (512, 2), (1024, 2)])
def test_servers_with_twice_the_pixels_at_any_scale_are_taken_too(side: int, scale: int) -> None:
    assert images.read_tile_image(image(side), scale).content_type == "image/png"


@pytest.mark.parametrize(
    ("body", "scale", "said"),
    [
        (image(255), 1, "an image of 255 × 255 pixels, not of 256 × 256"),
        (image(1024), 1, "1024 × 1024"),
        (image(256), 2, "256 × 256 pixels, not of 512 × 512"),
        (files.png(256, 512), 1, "256 × 512"),
        (files.png(12_000, 12_000), 1, "no image|12000 × 12000"),
        (files.png(60_000, 60_000), 1, "no image"),
        (files.png(256, 256), 1, "no image, or a broken one"),
        (b"", 1, "nothing"),
        (b"<!doctype html><p>Over quota", 1, "a page or XML"),
        (b' {"error": "key"}', 1, "JSON"),
        (b"\x89PNG\r\n\x1a\n", 1, "no image"),
        (b"plain", 1, "no image"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_a_body_that_is_no_tile_is_told(body: bytes, scale: int, said: str) -> None:
    with pytest.raises(UpstreamImageError, match=said):
        images.read_tile_image(body, scale)


@pytest.mark.parametrize("image_format", ["BMP", "TIFF", "PPM", "ICO"])
def test_other_formats_are_not_even_opened(image_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body, opened = image(256, image_format), []
    reader, accepts = Image.OPEN[image_format]

    def noting(*given: Any) -> ImageFile.ImageFile:
        opened.append(given)
        return reader(*given)

    monkeypatch.setitem(Image.OPEN, image_format, (noting, accepts))
    with pytest.raises(UpstreamImageError, match="no image"):
        images.read_tile_image(body, 1)
    assert opened == []


@pytest.mark.parametrize("body", FORMATS.values(), ids=FORMATS.keys())
def test_a_file_that_is_cut_short_anywhere_is_refused(body: bytes) -> None:
    for end in {*range(0, len(body), max(1, len(body) // 97)), *range(len(body) - 12, len(body))}:
        with pytest.raises(UpstreamImageError):
            images.read_tile_image(body[:end], 1)


@pytest.mark.parametrize("body", FORMATS.values(), ids=FORMATS.keys())
@pytest.mark.parametrize("behind", [b"<script>alert(1)</script>", b"PK\x03\x04" + bytes(40) + b"x", image()])
def test_nothing_hides_behind_a_picture(body: bytes, behind: bytes) -> None:
    with pytest.raises(UpstreamImageError, match="something else behind"):
        images.read_tile_image(body + behind, 1)


@given(st.sampled_from(list(FORMATS.values())), st.data())
def test_damage_is_refused_or_does_no_harm(body: bytes, data: st.DataObject) -> None:
    broken = bytearray(body)
    for _ in range(data.draw(st.integers(1, 8))):
        broken[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        picture = images.convert_image(images.read_tile_image(bytes(broken), 1), "webp")
    except UpstreamImageError:
        return
    with Image.open(io.BytesIO(picture.body)) as shown:
        assert shown.size in {(256, 256), (512, 512)}


@given(st.binary(max_size=300))
def test_any_bytes_are_an_image_or_a_clear_error(body: bytes) -> None:
    for start in (b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a\0\1\0\1", b"RIFF\x20\0\0\0WEBPVP8X"):
        with pytest.raises(UpstreamImageError):
            images.read_tile_image(start + body, 1)


@pytest.mark.parametrize("name", ["PNG", "palette", "GIF"])
def test_what_has_no_loss_stays_the_same_to_the_pixel_as_webp(name: str) -> None:
    picture = images.convert_image(images.read_tile_image(FORMATS[name], 1), "webp")
    assert picture.content_type == "image/webp"
    with Image.open(io.BytesIO(FORMATS[name])) as before, Image.open(io.BytesIO(picture.body)) as after:
        assert before.convert("RGB").tobytes() == after.convert("RGB").tobytes()


def test_what_shows_through_still_does_as_webp() -> None:
    buffer = io.BytesIO()
    Image.new("RGBA", (256, 256), (10, 20, 30, 0)).save(buffer, format="PNG")
    picture = images.convert_image(images.read_tile_image(buffer.getvalue(), 1), "webp")
    with Image.open(io.BytesIO(picture.body)) as after:
        assert after.convert("RGBA").getpixel((5, 5))[3] == 0  # type: ignore[index]


def test_a_photograph_is_not_kept_without_loss() -> None:
    picture = images.convert_image(images.read_tile_image(FORMATS["JPEG"], 1), "webp")
    assert picture.content_type == "image/webp"
    assert len(picture.body) < 2 * len(FORMATS["JPEG"])
