"""URLs of the map page, tiles and their descriptions."""

from django.urls import path, re_path

from . import overview
from .tiles import tile, views

urlpatterns = [
    path("", overview.map_page, name="map"),
    re_path(rf"\Atiles/(?P<slug>{tile.SLUG})\.json\Z", views.describe, name="tilejson"),
    re_path(r"\Atiles/(?P<address>(?s:.*))\Z", views.tile, name="tile"),
]
