"""Painting of thumbnails: formats, boxes, orientation, colours and refused images."""

import io
import struct

import pytest
from PIL import Image, ImageCms

from resources.mirror.errors import UnreadableImageError
from resources.mirror.media import pictures
from resources.mirror.media.pictures import ThumbnailBox, render_thumbnail
from resources.mirror.media.thumbnails import ThumbnailFit
from tests.hostile import files

RED, BLUE = (200, 0, 0), (0, 0, 200)
PIXELS = 50_000_000


def painted(
    body: bytes, width: int, height: int, fit: ThumbnailFit = "contain", image_format: str = "png"
) -> Image.Image:
    return Image.open(
        io.BytesIO(render_thumbnail(io.BytesIO(body), ThumbnailBox(width, height, fit, image_format), PIXELS))
    )


def saved(image: Image.Image, image_format: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, image_format)
    return buffer.getvalue()


def grey(mode: str) -> bytes:
    return saved(Image.new("I", (40, 30), 40_000).convert(mode), "TIFF")


def is_like(image: Image.Image, place: tuple[int, int], colour: tuple[int, ...]) -> bool:
    found = image.convert("RGB").getpixel(place)
    assert isinstance(found, tuple)
    return all(abs(one - other) < 12 for one, other in zip(found, colour, strict=True))


@pytest.mark.parametrize("image_format", ["webp", "png", "jpeg"])
@pytest.mark.parametrize("name", files.PICTURES)
def test_each_format_that_is_read_gives_each_format_that_is_painted(name: str, image_format: str) -> None:
    small = painted(files.PICTURES[name], 12, 12, image_format=image_format)

    assert (small.format, small.size) == (image_format.upper(), (12, 9))
    assert is_like(small, (1, 4), RED)
    assert is_like(small, (10, 4), BLUE)


@pytest.mark.parametrize(
    ("fit", "box", "size"),
    [
        ("contain", (20, 20), (20, 15)),
        ("contain", (20, 3), (4, 3)),
        ("contain", (1, 1), (1, 1)),
        ("contain", (400, 400), (40, 30)),
        ("contain", (400, 15), (20, 15)),
        ("crop", (20, 20), (20, 20)),
        ("crop", (10, 30), (10, 30)),
        ("crop", (40, 3), (40, 3)),
        ("crop", (300, 300), (30, 30)),
        ("crop", (400, 100), (40, 10)),
        ("crop", (30, 60), (15, 30)),
    ],
)
def test_a_thumbnail_fits_in_its_box_or_fills_it_and_is_never_larger_than_the_original(
    fit: ThumbnailFit, box: tuple[int, int], size: tuple[int, int]
) -> None:
    assert painted(files.PICTURES["a.png"], *box, fit).size == size


@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("size", [(2001, 1333), (1333, 2001), (4001, 17)])
def test_large_images_have_the_size_and_the_middle_of_small_ones(size: tuple[int, int], image_format: str) -> None:
    body = files.picture(image_format, size)

    whole, middle = painted(body, 100, 100), painted(body, 10, 10, "crop")

    assert max(whole.size) == 100
    assert middle.size == (10, 10)
    for small in (whole, middle):
        assert is_like(small, (1, small.height // 2), RED)
        assert is_like(small, (small.width - 2, small.height // 2), BLUE)


def test_strips_of_a_large_image_meet_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    gradient = saved(Image.linear_gradient("L").resize((300, 900)).convert("RGB"))
    at_once = painted(gradient, 40, 40).tobytes()
    monkeypatch.setattr(pictures, "STRIP_PIXELS", 5000)

    assert painted(gradient, 40, 40).tobytes() == at_once


@pytest.mark.parametrize("image_format", ["JPEG", "WEBP", "PNG", "TIFF", "AVIF"])
@pytest.mark.parametrize(
    ("orientation", "size", "red"),
    [(1, (20, 15), "left"), (3, (20, 15), "right"), (6, (15, 20), "top"), (8, (15, 20), "bottom")],
)
def test_pictures_stand_as_the_camera_did(image_format: str, orientation: int, size: tuple[int, int], red: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    small = painted(files.picture(image_format, exif=exif.tobytes()), *size)
    places = {"left": (2, 7), "right": (17, 7), "top": (7, 2), "bottom": (7, 17)}

    assert small.size == size
    assert is_like(small, places[red], RED)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_broken_metadata_is_none() -> None:
    assert painted(files.picture("JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"), 20, 15).size == (20, 15)


def test_nothing_of_the_metadata_is_kept() -> None:
    exif = Image.Exif()
    exif[0x010E] = "secret"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    body = files.picture("JPEG", exif=exif.tobytes(), icc_profile=profile, comment=b"secret")

    for image_format in ("webp", "png", "jpeg"):
        file = render_thumbnail(io.BytesIO(body), ThumbnailBox(20, 20, "contain", image_format), PIXELS)
        assert b"secret" not in file
        assert not {"icc_profile", "exif", "comment"} & Image.open(io.BytesIO(file)).info.keys()


def test_colours_are_those_that_the_profile_means() -> None:
    lab_grey = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    swapped = lab_grey.replace(b"rXYZ", b"tmp!").replace(b"bXYZ", b"rXYZ").replace(b"tmp!", b"bXYZ")

    assert is_like(painted(files.picture("PNG", icc_profile=lab_grey), 20, 15), (2, 7), RED)
    assert is_like(painted(files.picture("PNG", icc_profile=swapped), 20, 15), (2, 7), BLUE)
    assert is_like(painted(files.picture("PNG", icc_profile=b"no profile"), 20, 15), (2, 7), RED)


def test_what_is_transparent_stays_so_and_is_white_in_a_jpeg() -> None:
    body = saved(Image.new("RGBA", (40, 30), (0, 0, 0, 0)))

    assert painted(body, 20, 20).getpixel((3, 3)) == (0, 0, 0, 0)
    assert painted(body, 20, 20, image_format="webp").mode == "RGBA"
    assert is_like(painted(body, 20, 20, image_format="jpeg"), (3, 3), (255, 255, 255))


@pytest.mark.parametrize(
    ("image_format", "mode"),
    [
        *(("PNG", mode) for mode in ("1", "L", "LA", "P", "RGBA")),
        *(("TIFF", mode) for mode in ("I;16", "I")),
        *(("JPEG", mode) for mode in ("CMYK", "YCbCr", "L")),
    ],
)
def test_images_of_each_mode_are_painted(image_format: str, mode: str) -> None:
    body = grey(mode) if image_format == "TIFF" else files.picture(image_format, mode=mode)
    small = painted(body, 20, 20, image_format="jpeg")

    assert small.size == (20, 15)
    assert mode not in {"CMYK", "YCbCr", "RGBA"} or is_like(small, (3, 7), RED)


def test_sixteen_bits_of_grey_are_as_bright_as_eight() -> None:
    assert is_like(painted(grey("I;16"), 20, 20), (3, 3), (156, 156, 156))


@pytest.mark.parametrize("name", ["large header.png", "large header.gif", "large header.bmp"])
def test_images_of_too_many_pixels_are_not_decoded(name: str) -> None:
    with pytest.raises(UnreadableImageError, match="pixels: too many"):
        painted(files.BOMBS[name], 20, 20)


@pytest.mark.parametrize("name", files.CUT_SHORT)
def test_what_is_cut_short_gives_no_thumbnail(name: str) -> None:
    with pytest.raises(UnreadableImageError, match="broken"):
        painted(files.CUT_SHORT[name], 20, 20)


@pytest.mark.parametrize("body", [b"", b"text", files.SVG.encode(), struct.pack("<HI", 0x4D42, 7)])
def test_what_is_no_image_gives_no_thumbnail(body: bytes) -> None:
    with pytest.raises(UnreadableImageError, match=r"no format|broken"):
        painted(body, 20, 20)
