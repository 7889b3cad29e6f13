"""URLs of the pages, of tiles and their descriptions."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from . import layer_page, overview
from .mirroring.serving import thumbnails
from .mirroring.serving import views as mirrored
from .static_map import views as static_map
from .tiles import tile, views


class AnyAddress(StringConverter):
    """Whatever follows: the view answers for all of it, so that no address gets another kind of 404."""

    regex = r"[\s\S]*"


class LayerSlug(StringConverter):
    regex = tile.SLUG


class Digest(StringConverter):
    regex = "[0-9a-f]{64}"


class Segment(StringConverter):
    """One segment of a path that is none of another kind of address."""

    regex = r"[^/.]*"


register_converter(AnyAddress, "any_address")
register_converter(Digest, "digest")
register_converter(Segment, "segment")
register_converter(LayerSlug, "layer_slug")

urlpatterns = [
    path("", overview.map_page, name="map"),
    path("favicon.ico", overview.icon),
    path("layers/<layer_slug:slug>", layer_page.with_slash),
    path("layers/<layer_slug:slug>/", layer_page.layer_page, name="layer"),
    path("layers/<any_address:address>", layer_page.missing),
    path("changes.json", views.tell_changes, name="changes"),
    path("tiles/<layer_slug:slug>.json", views.describe, name="tilejson"),
    path("tiles/<layer_slug:slug>@2x.json", views.describe, {"scale": 2}),
    path("tiles/<any_address:address>", views.tile, name="tile"),
    path("resources/<digest:digest>/<any_address:name>", thumbnails.thumbnail, name="thumbnail"),
    path("staticmap", static_map.static_map, name="static_map"),
    path("resources/<digest:digest>", mirrored.by_digest, name="blob"),
    path("resources/<segment:signature>/<segment:encoded>", mirrored.by_url, name="mirrored"),
    path("resources/<any_address:address>", mirrored.missing),
]
