import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.static_map.picture import MAX_SIDE, Picture, PictureError
from retry.tickets import MAX_KEY_CHARACTERS

GIVEN = {"layers": "land,jams", "center": "51.5,-0.12", "zoom": "12", "size": "640x480"}


def read(**changed: str) -> Picture:
    return Picture.read({name: [value] for name, value in {**GIVEN, **changed}.items()})


def test_the_picture_lies_around_its_center() -> None:
    picture = read(center="0,0", zoom="1", size="100x60")
    assert (picture.x, picture.y, picture.width, picture.height) == (206, 226, 100, 60)


def test_parameters_in_another_order_name_the_same_picture() -> None:
    backwards = Picture.read({name: [value] for name, value in reversed(GIVEN.items())})
    assert backwards.content_key == read().content_key


@pytest.mark.parametrize(
    "changed",
    [{"center": "51.50000000001,-0.12"}, {"center": "51.5,-000.12"}, {"format": "png"}],
    ids=["within one pixel", "with more zeros", "with the format that it has by itself"],
)
def test_other_ways_to_write_it_name_the_same_picture(changed: dict[str, str]) -> None:
    assert read(**changed).content_key == read().content_key


def test_both_names_of_the_antimeridian_are_one_place() -> None:
    assert read(center="10,180").content_key == read(center="10,-180").content_key


@pytest.mark.parametrize(
    "changed",
    [{"layers": "jams,land"}, {"center": "51.6,-0.12"}, {"zoom": "13"}, {"size": "640x481"}, {"format": "webp"}],
)
def test_another_picture_has_another_key(changed: dict[str, str]) -> None:
    assert read(**changed).content_key != read().content_key


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layers", ""),
        ("layers", "jams,"),
        ("layers", "jams,jams"),
        ("layers", "Jams"),
        ("layers", "../x"),
        ("layers", ",".join(f"l{number}" for number in range(9))),
        ("center", ""),
        ("center", "51.5"),
        ("center", "nan,0"),
        ("center", "inf,0"),
        ("center", "1e1,0"),
        ("center", "90.1,0"),
        ("center", "0,180.5"),
        ("center", "0,0,0"),
        ("center", "٥١,٠"),
        ("center", "9" * 400 + ",0"),
        ("zoom", "-1"),
        ("zoom", "23"),
        ("zoom", "07"),
        ("zoom", "1.5"),
        ("zoom", "³"),
        ("size", "640"),
        ("size", "0x10"),
        ("size", "10x0"),
        ("size", f"{MAX_SIDE + 1}x10"),
        ("size", "640X480"),
        ("size", "99999999x1"),
        ("format", "gif"),
        ("format", ""),
        ("format", "PNG"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(PictureError, match=name):
        read(**{name: value})


def test_a_large_picture_of_many_layers_is_refused() -> None:
    with pytest.raises(PictureError, match="times the number of layers"):
        read(layers="a,b,c", size="2048x2048")


@pytest.mark.parametrize("name", GIVEN)
def test_a_missing_parameter_is_named(name: str) -> None:
    with pytest.raises(PictureError, match=f"{name} is missing"):
        Picture.read({other: [value] for other, value in GIVEN.items() if other != name})


def test_a_repeated_parameter_is_refused() -> None:
    with pytest.raises(PictureError, match="zoom is given more than once"):
        Picture.read({**{name: [value] for name, value in GIVEN.items()}, "zoom": ["12", "13"]})


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(PictureError, match="no parameter “colour”"):
        read(colour="red")


@given(st.dictionaries(st.sampled_from([*GIVEN, "format"]), st.text(max_size=30)))
def test_whatever_is_given_names_a_picture_or_is_refused(changed: dict[str, str]) -> None:
    try:
        picture = read(**changed)
    except PictureError:
        return
    assert picture.content_key.isprintable()


def test_the_longest_key_fits_into_a_ticket() -> None:
    longest = ",".join(f"{number}{'x' * 49}" for number in range(8))
    picture = read(layers=longest, zoom="22", size="2048x488", center="-85,179.99", format="webp")
    version = str(8 * 10**16)
    assert len(f"{picture.content_key}:{version}") <= MAX_KEY_CHARACTERS
