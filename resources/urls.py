"""URLs of the pages, of tiles and their descriptions, of static maps and of mirrored files."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from . import staticmap
from .mirror import views
from .tiles import pages, tile_address
from .tiles import views as tiles_views


class AnyAddressConverter(StringConverter):
    """The whole rest of the address: the view answers all of it, so every address gets the same kind of 404."""

    regex = r"[\s\S]*"


class LayerSlugConverter(StringConverter):
    regex = tile_address.SLUG_PATTERN


class DigestConverter(StringConverter):
    regex = "[0-9a-f]{64}"


class PathSegmentConverter(StringConverter):
    """One segment of a path, without dots: other kinds of addresses do not match."""

    regex = r"[^/.]*"


register_converter(AnyAddressConverter, "any_address")
register_converter(DigestConverter, "digest")
register_converter(PathSegmentConverter, "segment")
register_converter(LayerSlugConverter, "layer_slug")

urlpatterns = [
    # Content comes first, since requests of it are many.
    path("tiles/<layer_slug:slug>.json", tiles_views.serve_tilejson, name="tilejson"),
    path("tiles/<layer_slug:slug>@2x.json", tiles_views.serve_tilejson, {"scale": 2}),
    path("tiles/<any_address:address>", tiles_views.serve_tile, name="tile"),
    path("resources/<digest:digest>/<any_address:name>", views.serve_thumbnail, name="thumbnail"),
    path("resources/<digest:digest>", views.serve_by_digest, name="blob"),
    path("resources/<segment:signature>/<segment:encoded>", views.serve_by_url, name="mirrored"),
    path("resources/<any_address:address>", views.answer_missing),
    path("staticmap", staticmap.static_map, name="static_map"),
    path("", pages.map_page, name="map"),
    path("favicon.ico", pages.site_icon),
    path("layers/<layer_slug:slug>", pages.redirect_to_slash),
    path("layers/<layer_slug:slug>/", pages.layer_page, name="layer"),
    path("layers/<any_address:address>", pages.missing_layer_page),
    path("changes.json", tiles_views.serve_changes, name="changes"),
    path("held/<digest:digest>/<int:until>/<segment:signature>", views.serve_held),
]
