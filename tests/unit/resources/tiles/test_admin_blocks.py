"""The blocks of a layer, as the admin has them measured."""

from typing import Any
from unittest.mock import Mock

import pytest
from django.test import Client

from resources.tiles import compile_process
from resources.tiles.errors import LayerError
from resources.tiles.models import Layer

from ..conftest import LINES, Load
from .test_admin import ADD, change, form, upload


def test_an_upload_is_measured_and_the_form_tells_its_blocks(admin_client: Client) -> None:
    admin_client.post(ADD, form(geometry_file=upload(LINES)))
    layer = Layer.objects.get()
    assert layer.metatiles
    layer.metatiles = {"0": 1, "9": 8}
    layer.save(update_fields=("metatiles",))
    assert "8 × 8 tiles at zooms 9 to 18" in admin_client.get(change(layer)).content.decode()


@pytest.mark.parametrize(
    ("changed", "measured"),
    [
        ({"max_zoom": 3}, True),
        ({"style": '{"widths": {"0": 9}}'}, True),
        ({"style": '{"colours": {"green": "#00ff00"}, "thresholds": [0.9, 0.5, 0.1]}'}, False),
        ({"title": "Another"}, False),
    ],
)
def test_blocks_are_measured_again_when_tiles_may_cost_otherwise(
    admin_client: Client, load: Load, changed: dict[str, Any], measured: bool
) -> None:
    layer = load()
    Layer.objects.update(metatiles={"0": 1})
    assert admin_client.post(change(layer), form(bounds=str(layer.bounds), **changed)).status_code == 302
    after = Layer.objects.get().metatiles
    assert (after != {"0": 1}) is measured
    assert not measured or max(map(int, after)) <= changed.get("max_zoom", 18)


def test_blocks_stay_as_they_are_when_measuring_fails(
    admin_client: Client, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = load()
    Layer.objects.update(metatiles={"0": 1})
    monkeypatch.setattr(compile_process, "run_in_child", Mock(side_effect=LayerError("took too long")))
    assert admin_client.post(change(layer), form(bounds=str(layer.bounds), max_zoom=3)).status_code == 302
    assert (Layer.objects.get().max_zoom, Layer.objects.get().metatiles) == (3, {"0": 1})
