"""The pages for people: the map at `/`, and the page of each layer with its facts and code that shows it.

They paint nothing and read no file: tiles have addresses of their own.
"""

import json
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse

from retry import deferral, responses

from .. import database
from . import grid, layer_state, snippets, styles, views
from .errors import LayerError
from .layers import LayerView, layers_snapshot
from .models import Layer

ANSWER_KINDS = (
    {"name": "browser", "title": "Browser cache", "meaning": "still fresh in this browser, no request"},
    {"name": "hot", "title": "Hot cache", "meaning": "answered by nginx alone"},
    {"name": "cache", "title": "Cache", "meaning": "prepared before, answered at once"},
    {"name": "stale", "title": "Stale, being refreshed", "meaning": "the older tile, at once"},
    {"name": "waited", "title": "Waited for", "meaning": "redirected until it was prepared"},
    {"name": "failed", "title": "Failed, to be retried", "meaning": "busy or broken: requested again later"},
)

SHOWN_FIELDS = ("slug", "title", "version", "base", "order", "min_zoom", "max_zoom", "attribution", "note")


@responses.read_only
@database.answer_outages
def map_page(request: HttpRequest) -> HttpResponse:
    """Shows the map. Paints nothing: the tiles have addresses of their own."""
    topmost_first = sorted(layers_snapshot(), key=lambda layer: (layer.base, -layer.order, layer.slug))  # as `Layer`
    layers = [describe_layer(layer) for layer in topmost_first]
    context = {
        "layers": layers,
        "groups": group_layers(layers),
        "kinds": ANSWER_KINDS,
        "page": {
            "layers": layers,
            "changes": reverse("changes"),
            "hot_seconds": settings.HOT_SECONDS,
            "wait_seconds": settings.DEFAULT_RETRY_TIMEOUT,
        },
    }
    return _render_page(request, "resources/map.html", context)


@responses.read_only
def site_icon(_: HttpRequest) -> HttpResponse:
    """`/favicon.ico`, which browsers request by themselves, even for answers that are no page of this site."""
    response = redirect(static("resources/icon.svg"))
    response["Cache-Control"] = "public, max-age=300"
    return response


def describe_layer(layer: LayerView) -> dict[str, Any]:
    """Returns a layer's values for the page and its script. Nothing secret."""
    return {
        **{name: getattr(layer, name) for name in SHOWN_FIELDS},
        "bounds": layer.bounds.as_list(),
        "legend": [] if layer.base else styles.layer_legend(layer.kind, layer.style),
        "url": f"/tiles/{layer.slug}/{{z}}/{{x}}/{{y}}{'{r}' if layer.has_scale(2) else ''}.png",
        "tilejson": f"/tiles/{layer.slug}.json",
        "page": reverse("layer", args=[layer.slug]),
    }


def group_layers(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the layers in the groups of the switches, the topmost first."""
    groups = (("Overlays", False), ("Base map", True))
    found = ((title, [layer for layer in layers if layer["base"] is base]) for title, base in groups)
    return [{"title": title, "layers": members} for title, members in found if members]


def content_security_policy(retry_after_server: str) -> str:
    """Returns the page's policy: this site alone, and the waiting instance if it is on another host.

    Tiles are fetched and shown from blobs, so that a busy answer's Retry-After can be obeyed.
    """
    parts = urlsplit(retry_after_server)
    sources = f"'self' {parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"img-src {sources} data: blob:; connect-src {sources}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@responses.read_only
@database.answer_outages
def layer_page(request: HttpRequest, slug: str) -> HttpResponse:
    """`/layers/<slug>/`: the layer's data, its state, and code that shows it. Paints nothing, reads no file."""
    layer = Layer.objects.filter(slug=slug, enabled=True).with_tiles().first()
    if layer is None:
        return missing_layer_page(request)
    try:
        context = _layer_context(layer, deferral.public_url(request))
    except LayerError:  # its tiles are 404, too
        return missing_layer_page(request)
    return _render_page(request, "resources/layer.html", context)


@responses.read_only
def missing_layer_page(request: HttpRequest, address: str = "") -> HttpResponse:
    return _render_page(request, "resources/layer_missing.html", {}, status=404)


@responses.read_only
def redirect_to_slash(request: HttpRequest, slug: str) -> HttpResponse:
    return redirect("layer", slug=slug, permanent=True)


def _render_page(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    response = render(request, template, context, status=status)
    response["Content-Security-Policy"] = content_security_policy(settings.RETRY_AFTER_SERVER)
    response["Cache-Control"] = "no-cache"
    return response


def _layer_context(layer: Layer, site: str) -> dict[str, Any]:
    view = LayerView.of(layer)
    subject = _snippet_subject(view, site)
    described = describe_layer(view)
    below = [describe_layer(other) for other in layers_snapshot() if _lies_below(other, view)]
    return {
        "layer": described,
        "facts": _layer_facts(layer, view),
        "dense": layer.has_dense_tiles,
        "painted": view.upstream is None,
        "style": json.dumps(layer.style, indent=2, ensure_ascii=False) if layer.style else "",
        "addresses": {"tiles": subject.tiles(), "tilejson": subject.tilejson},
        "tilejson": json.dumps(views.build_tilejson(view, site), indent=2, ensure_ascii=False),
        "snippets": snippets.fill_snippets(subject),
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
    """Tells whether the preview shows the other layer below this one, for orientation."""
    if other.slug == layer.slug or not other.base:
        return False
    return not layer.base or other.order < layer.order


def _redirects_to_paths() -> bool:
    """Tells whether waiting clients are redirected to a path without a host, which QGIS does not follow.

    https://github.com/qgis/QGIS/issues/54161
    """
    return settings.RETRY_DELIVERY != "internal" and not urlsplit(settings.RETRY_AFTER_SERVER).netloc


def _snippet_subject(view: LayerView, site: str) -> snippets.SnippetSubject:
    longitude, latitude = view.bounds.middle()
    zoom = grid.zoom_around(view.bounds, view.min_zoom, view.max_zoom)
    return snippets.SnippetSubject(
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


def _layer_facts(layer: Layer, view: LayerView) -> list[layer_state.LayerFact]:
    if view.upstream is not None:
        return [
            *layer_state.upstream_facts(layer.get_kind_display(), view.upstream.host),
            *layer_state.version_facts(layer.version, "settings, or all of its tiles"),
            *layer_state.map_facts(view.min_zoom, view.max_zoom, view.bounds, {}),
            *layer_state.upstream_freshness_facts(
                view.fresh_seconds, view.most_fresh_seconds, view.stale_seconds, view.client_seconds
            ),
        ]
    speeds = layer_state.speed_facts(layer.segments, layer.speeds_known, layer.measured_at)
    return [
        *layer_state.data_facts(layer.get_kind_display(), layer.segments, layer.positions),
        *(speeds if layer.kind == Layer.Kind.LINES else ()),
        *layer_state.version_facts(layer.version),
        *layer_state.map_facts(view.min_zoom, view.max_zoom, view.bounds, view.metatile_sides()),
        *layer_state.freshness_facts(view.fresh_seconds, view.stale_seconds, view.client_seconds, settings.HOT_SECONDS),
    ]
