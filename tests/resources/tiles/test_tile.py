import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles.tile import Tile


def test_names_of_a_tile() -> None:
    tile = Tile.parse("jams/12/2046/1361.png")
    assert tile == Tile("jams", 12, 2046, 1361)
    assert tile.content_key == "tile:jams:12:2046:1361:png"


def test_names_of_a_large_webp_tile_are_its_own() -> None:
    tile = Tile.parse("jams/12/2046/1361@2x.webp")
    assert tile == Tile("jams", 12, 2046, 1361, 2, "webp")
    assert tile.content_key == "tile:jams:12:2046:1361@2x:webp"


@pytest.mark.parametrize(
    "address",
    [
        "",
        "jams",
        "jams/1/0/0",
        "jams/1/0/0.jpg",
        "jams/01/0/0.png",
        "jams/1/00/0.png",
        "jams/1/0/01.png",
        "jams/1/+0/0.png",
        "jams/1/-1/0.png",
        "jams/1/0/0.PNG",
        "Jams/1/0/0.png",
        "jams/1/0/0@3x.png",
        "jams/1/0/0.png/",
        "jams/1/0/0.png\n",
        "jams//1/0/0.png",
        "jams/1/2/0.png",
        "jams/23/0/0.png",
        "jams/99999999999999999999/0/0.png",
        "jams/１/0/0.png",
        "jams/1.0/0/0.png",
        "-jams/1/0/0.png",
        "a:b/1/0/0.png",
        "a" * 51 + "/1/0/0.png",
        "a" * 5_000_000,
    ],
)
def test_addresses_that_name_no_tile(address: str) -> None:
    assert Tile.parse(address) is None


@given(st.integers(0, 22), st.data(), st.sampled_from(["", "@2x"]), st.sampled_from(["png", "webp"]))
def test_every_tile_of_the_grid_has_one_address(z: int, data: st.DataObject, twice: str, image_format: str) -> None:
    x, y = (data.draw(st.integers(0, 2**z - 1)) for _ in "xy")
    address = f"jams/{z}/{x}/{y}{twice}.{image_format}"
    tile = Tile.parse(address)
    assert tile == Tile("jams", z, x, y, 2 if twice else 1, image_format)


@given(st.text())
def test_no_text_is_answered_with_an_exception(address: str) -> None:
    Tile.parse(address)
