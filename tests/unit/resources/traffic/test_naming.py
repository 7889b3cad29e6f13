"""The content that an address names, by the functions that TRAFFIC has."""

import pytest
from pytest_django import Settings

from resources.tiles import tile_address
from resources.traffic import counter
from resources.traffic.asked import Asked
from resources.traffic.checks import check_traffic


def primes(address: str) -> Asked:
    return Asked("prime", "", f"prime:{int(address.removeprefix('/primes/'))}")


def others(address: str) -> Asked:
    return Asked("other-primes")


@pytest.fixture(autouse=True)
def _registered(settings: Settings) -> None:
    settings.TRAFFIC = {
        **settings.TRAFFIC,
        "/primes/": f"{__name__}.primes",
        "/primes/twin/": f"{__name__}.others",
    }


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("/tiles/jams/12/2046/1361.png", Asked("tile", "jams", "tile:jams:12:2046:1361:png", part="12")),
        ("/tiles/jams/12/2046/1361@2x.webp", Asked("tile", "jams", "tile:jams:12:2046:1361@2x:webp", part="12")),
        ("/tiles/jams/1/2/0.png", None),
        ("/tiles/jams.json", None),
        ("/tiles/", None),
        ("/primes/7", Asked("prime", "", "prime:7")),
        ("/primes/twin/7", Asked("other-primes")),
        ("/elsewhere", None),
    ],
)
def test_an_address_names_content(address: str, asked: Asked | None) -> None:
    assert counter.name_address(address) == asked


def test_the_key_is_the_one_that_the_tile_is_stored_under() -> None:
    asked = tile_address.asked_tile("/tiles/jams/1/0/0.png")
    assert asked is not None
    assert asked.content_key.partition(":")[0] == asked.kind


def test_an_address_that_its_function_cannot_bear_names_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert counter.name_address("/primes/seven") is None
    assert "could not name" in caplog.text


@pytest.mark.parametrize(
    ("changes", "identifier"),
    [
        ({"TRAFFIC": {"tiles": "resources.tiles.tile_address.asked_tile"}}, "resources.E001"),
        ({"TRAFFIC": {'/a" 1; evil': "resources.tiles.tile_address.asked_tile"}}, "resources.E001"),
        ({"TRAFFIC": {"/a/": "resources.tiles.tile_address.nothing"}}, "resources.E002"),
        ({"TRAFFIC": {"/a/": "nowhere.at.all"}}, "resources.E002"),
        ({"TRAFFIC_LOG_MAX_BYTES": 10}, "resources.E003"),
    ],
)
def test_a_bad_setting_is_found_at_the_start(settings: Settings, changes: dict[str, object], identifier: str) -> None:
    assert check_traffic(None) == []
    for name, value in changes.items():
        setattr(settings, name, value)
    assert [message.id for message in check_traffic(None)] == [identifier]
