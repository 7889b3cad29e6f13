"""Thumbnails painted in a child process: the bounds of images, and the results of images that exceed them."""

import io
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from PIL import Image

from resources.mirror.errors import UnreadableImageError
from resources.mirror.media.pictures import ThumbnailBox
from resources.mirror.media.thumbnail_process import ThumbnailPainter
from resources.sandbox import ChildAllowance
from tests.hostile import files
from tests.support.processes import peak_bytes

MEBIBYTE = 1024 * 1024
MEMORY_BYTES = 512 * MEBIBYTE
PIXELS = 50_000_000
WAYS = [ThumbnailBox(320, 240, "contain", "webp"), ThumbnailBox(2048, 2048, "crop", "png")]


@pytest.fixture(scope="module")
def painter() -> Iterator[ThumbnailPainter]:
    yield (made := ThumbnailPainter())
    made.close()


@pytest.fixture
def fresh() -> Iterator[ThumbnailPainter]:
    """A painter whose child has had nothing else in its memory."""
    yield (made := ThumbnailPainter())
    made.close()


def paint(painter: ThumbnailPainter, body: bytes, box: ThumbnailBox = WAYS[0], seconds: float = 60) -> Image.Image:
    allowance = ChildAllowance(MEMORY_BYTES, seconds)
    return Image.open(io.BytesIO(painter.paint(box, io.BytesIO(body), len(body), PIXELS, allowance)))


def large(image_format: str, mode: str = "RGB", **options: object) -> bytes:
    """An image of as many pixels as there may be, three to two."""
    height = int((PIXELS / 1.5) ** 0.5)
    return files.picture(image_format, (height * 3 // 2, height), mode, **options)


def test_one_child_paints_them_all(painter: ThumbnailPainter) -> None:
    first = paint(painter, files.PICTURES["a.jpeg"])
    pid = painter.pid
    second = paint(painter, files.PICTURES["a.png"])

    assert first.size == second.size == (40, 30)
    assert painter.pid == pid


@pytest.mark.parametrize("name", [*files.BOMBS, "script in a GIF.gif", "page in a JPEG.jpeg"])
def test_no_bomb_takes_more_memory_than_there_is_for_an_image(painter: ThumbnailPainter, name: str) -> None:
    with suppress(UnreadableImageError):
        paint(painter, {**files.BOMBS, **files.RUNNING}[name], WAYS[1])

    assert painter.pid
    assert peak_bytes(painter.pid) < MEMORY_BYTES / 4


@pytest.mark.parametrize(
    ("image_format", "mode", "options"),
    [("JPEG", "CMYK", {"progressive": True}), ("PNG", "RGBA", {"compress_level": 1})],
    ids=["progressive JPEG for printers", "PNG with transparency"],
)
def test_the_largest_images_are_painted_within_their_memory(
    fresh: ThumbnailPainter, image_format: str, mode: str, options: dict[str, object]
) -> None:
    assert max(paint(fresh, large(image_format, mode, **options), WAYS[1]).size) == 2048
    assert fresh.pid
    assert peak_bytes(fresh.pid) < MEMORY_BYTES


def test_what_takes_more_memory_than_that_is_refused_and_harms_no_other(fresh: ThumbnailPainter) -> None:
    with pytest.raises(UnreadableImageError, match="memory"):
        paint(fresh, large("WEBP", method=0))

    assert fresh.pid
    assert peak_bytes(fresh.pid) < MEMORY_BYTES
    assert paint(fresh, files.PICTURES["a.webp"]).size == (40, 30)


def test_a_child_that_was_killed_meanwhile_costs_nothing(painter: ThumbnailPainter) -> None:
    paint(painter, files.PICTURES["a.png"])
    child = psutil.Process(painter.pid)
    child.kill()
    psutil.wait_procs([child], timeout=5)

    assert paint(painter, files.PICTURES["a.png"]).size == (40, 30)


def test_a_file_that_cannot_be_read_to_its_end_leaves_no_child_waiting_for_it(painter: ThumbnailPainter) -> None:
    with pytest.raises(UnreadableImageError):
        painter.paint(WAYS[0], io.BytesIO(b"short"), 1000, PIXELS, ChildAllowance(MEMORY_BYTES, 60))

    assert paint(painter, files.PICTURES["a.png"]).size == (40, 30)


def test_a_child_that_nobody_needs_ends() -> None:
    painter = ThumbnailPainter(idle_seconds=0.05)
    paint(painter, files.PICTURES["a.png"])
    gone, _ = psutil.wait_procs([psutil.Process(painter.pid)], timeout=10)
    assert gone


def test_the_child_knows_nothing_of_the_site(fresh: ThumbnailPainter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "secret")
    paint(fresh, files.PICTURES["a.png"])

    assert b"secret" not in Path(f"/proc/{fresh.pid}/environ").read_bytes()
    assert "django" not in Path(f"/proc/{fresh.pid}/maps").read_text()
