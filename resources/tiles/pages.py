"""The page of one layer, for people who want to use it."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from retry import deferring, methods

from . import layer_state, outages, overview
from .models import Layer
from .snippets import filling
from .tiles import grid, tilejson
from .tiles.errors import LayerError
from .tiles.layers import LayerView, layers_snapshot


@methods.read_only
@outages.told
def layer_page(request: HttpRequest, slug: str) -> HttpResponse:
    """`/layers/<slug>/`: what the layer is, how it stands, code that shows it. Paints nothing, reads no file."""
    layer = Layer.objects.filter(slug=slug, enabled=True).with_tiles().first()
    if layer is None:
        return missing(request)
    try:
        context = _context(layer, deferring.public_url(request))
    except LayerError:  # its tiles are 404, too
        return missing(request)
    return _page(request, "resources/layer.html", context)


@methods.read_only
def missing(request: HttpRequest, address: str = "") -> HttpResponse:
    """404 for a layer that is not there, or switched off."""
    return _page(request, "resources/layer_missing.html", {}, status=404)


@methods.read_only
def with_slash(request: HttpRequest, slug: str) -> HttpResponse:
    """`/layers/<slug>` leads to the page, whether there is one or not."""
    return redirect("layer", slug=slug, permanent=True)


def _page(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    response = render(request, template, context, status=status)
    response["Content-Security-Policy"] = overview.content_security_policy(settings.RETRY_AFTER_SERVER)
    response["Cache-Control"] = "no-cache"
    return response


def _context(layer: Layer, site: str) -> dict[str, Any]:
    view = LayerView.of(layer)
    subject = _subject(view, site)
    described = overview.described(view)
    below = [overview.described(other) for other in layers_snapshot() if _lies_below(other, view)]
    return {
        "layer": described,
        "facts": _facts(layer, view),
        "dense": layer.has_dense_tiles,
        "painted": view.upstream is None,
        "style": json.dumps(layer.style, indent=2, ensure_ascii=False) if layer.style else "",
        "addresses": {"tiles": subject.tiles(), "tilejson": subject.tilejson},
        "tilejson": json.dumps(tilejson.describe(view, site), indent=2, ensure_ascii=False),
        "snippets": filling.snippets(subject),
        "redirects_to_paths": _redirects_to_paths(),
        "place": f"{reverse('map')}#{subject.zoom}/{subject.latitude:.4f}/{subject.longitude:.4f}",
        "page": {
            "layers": [*below, described],
            "slug": layer.slug,
            "view": {"centre": [subject.latitude, subject.longitude], "zoom": subject.zoom},
            "changes": reverse("changes"),
            "hot_seconds": settings.HOT_SECONDS,
        },
    }


def _lies_below(other: LayerView, layer: LayerView) -> bool:
    """Whether the preview shows the other layer, so that one sees where this one is."""
    if other.slug == layer.slug or not other.base:
        return False
    return not layer.base or other.order < layer.order


def _redirects_to_paths() -> bool:
    """Whether clients are sent to wait by a path, without a host, which QGIS does not follow.

    https://github.com/qgis/QGIS/issues/54161
    """
    return settings.RETRY_DELIVERY != "internal" and not urlsplit(settings.RETRY_AFTER_SERVER).netloc


def _subject(view: LayerView, site: str) -> filling.Subject:
    longitude, latitude = view.bounds.middle()
    zoom = grid.zoom_around(view.bounds, view.min_zoom, view.max_zoom)
    return filling.Subject(
        site=site,
        slug=view.slug,
        title=view.title,
        attribution=view.attribution,
        min_zoom=view.min_zoom,
        max_zoom=view.max_zoom,
        latitude=latitude,
        longitude=longitude,
        zoom=min(zoom + 1, view.max_zoom),  # as wide as a page, not as a thumbnail
        dense=view.has_scale(2),
    )


def _facts(layer: Layer, view: LayerView) -> list[layer_state.Fact]:
    if view.upstream is not None:
        return [
            *layer_state.upstream_facts(layer.get_kind_display(), view.upstream.host),
            *layer_state.version_facts(layer.version, "settings, or all of its tiles"),
            *layer_state.map_facts(view.min_zoom, view.max_zoom, view.bounds, {}),
            *layer_state.upstream_freshness_facts(
                view.fresh_seconds, view.most_fresh_seconds, view.stale_seconds, view.client_seconds
            ),
        ]
    speeds: Iterator[layer_state.Fact] = iter(())
    if layer.kind == Layer.Kind.LINES:
        speeds = layer_state.speed_facts(layer.segments, layer.speeds_known, layer.measured_at)
    return [
        *layer_state.data_facts(layer.get_kind_display(), layer.segments, layer.positions),
        *speeds,
        *layer_state.version_facts(layer.version),
        *layer_state.map_facts(view.min_zoom, view.max_zoom, view.bounds, view.block_sides()),
        *layer_state.freshness_facts(view.fresh_seconds, view.stale_seconds, view.client_seconds, settings.HOT_SECONDS),
    ]
