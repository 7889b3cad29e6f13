"""One line of the table is all that a format needs."""

import io

import pytest
from PIL import Image

from resources.image_formats import BY_PILLOW_NAME, THUMBNAIL_FORMATS, TILE_FORMATS, UPSTREAM_FORMATS
from resources.mirror.media import image_files
from resources.mirror.media.pictures import ThumbnailBox, render_thumbnail
from resources.tiles.render import painter
from resources.tiles.tile_address import Tile
from resources.tiles.upstream.images import UpstreamImage, convert_image


def encode(image: Image.Image, pillow_name: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=pillow_name)
    return buffer.getvalue()


@pytest.mark.parametrize("name", TILE_FORMATS)
def test_a_tile_is_a_file_of_the_format_in_its_address(name: str) -> None:
    tile = Tile.parse(f"roads/0/0/0.{name}")
    assert tile is not None
    with Image.open(io.BytesIO(painter.encode_empty_tile(1, tile.format))) as image:
        assert image.format == TILE_FORMATS[name].pillow_name
        assert Image.MIME[image.format] == tile.content_type


@pytest.mark.parametrize("name", THUMBNAIL_FORMATS)
@pytest.mark.parametrize("pillow_name", BY_PILLOW_NAME)
def test_thumbnails_in_each_format_are_made_of_images_of_each(pillow_name: str, name: str) -> None:
    original = io.BytesIO(encode(Image.new("RGB", (32, 32), "red"), pillow_name))
    painted = render_thumbnail(original, ThumbnailBox(8, 8, "contain", name), 2_000)
    assert image_files.find_image_format(painted[:30]) == THUMBNAIL_FORMATS[name].pillow_name


@pytest.mark.parametrize("name", [name for name in TILE_FORMATS if name != "png"])
@pytest.mark.parametrize("pillow_name", UPSTREAM_FORMATS)
def test_a_tile_of_another_server_comes_in_the_format_of_the_address(pillow_name: str, name: str) -> None:
    picture = UpstreamImage(encode(Image.new("RGB", (8, 8)), pillow_name), UPSTREAM_FORMATS[pillow_name].media_type)
    assert convert_image(picture, name).content_type == TILE_FORMATS[name].media_type
