"""Puts layers of another server's tiles into service."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from resources.models import Layer, whole_world
from resources.tiles.keeping import storing

NO_DATA: Mapping[str, Any] = {
    **{"geometry_name": "", "geometry_digest": "", "speeds_name": "", "metatiles": {}},
    **{"segments": 0, "positions": 0, "speeds_known": 0, "measured_at": None},
}
"""The fields of a layer whose data is gone: storing deletes the files that it had."""


def store_upstream(slug: str, template: str, fields: Mapping[str, Any]) -> Layer:
    """Creates the layer, or changes it into one, with the named fields. Raises ValidationError for bad fields.

    What belongs to the data that it had before goes with it: files, style and bounds.
    """
    with transaction.atomic():
        layer = Layer.objects.select_for_update().filter(slug=slug).first() or Layer(slug=slug)
        if layer.kind != Layer.Kind.UPSTREAM:
            layer.style, layer.bounds = {}, whole_world()
        for name, value in {**fields, "kind": Layer.Kind.UPSTREAM, "upstream": template}.items():
            setattr(layer, name, value)
        if "most_fresh_seconds" not in fields:
            layer.most_fresh_seconds = max(layer.most_fresh_seconds, layer.fresh_seconds)
        layer.full_clean()
        return storing.put_in_service(layer, NO_DATA, None)
