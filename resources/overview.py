"""The page at `/`: the map, its layers, and a panel that explains what is happening."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse

from resources import outages
from resources.tiles import layers as snapshots
from resources.tiles.layers import LayerView
from resources.tiles.styling import style
from retry import methods

KINDS = (
    {"name": "browser", "title": "Kept by this browser", "meaning": "fresh still: nobody was asked"},
    {"name": "hot", "title": "From the hot cache", "meaning": "nginx answered by itself"},
    {"name": "cache", "title": "From the cache", "meaning": "prepared before, answered at once"},
    {"name": "stale", "title": "Stale, being refreshed", "meaning": "the older one, at once"},
    {"name": "waited", "title": "Waited for", "meaning": "redirected until it was prepared"},
    {"name": "failed", "title": "Failed, tried again", "meaning": "busy or broken: asked again later"},
)


@methods.read_only
@outages.told
def map_page(request: HttpRequest) -> HttpResponse:
    """Shows the map. Does not paint anything itself: the tiles have addresses of their own."""
    layers = [described(layer) for layer in sorted(snapshots.layers_snapshot(), key=_from_top)]
    context = {
        "layers": layers,
        "groups": grouped(layers),
        "kinds": KINDS,
        "page": {
            "layers": layers,
            "changes": reverse("changes"),
            "hot_seconds": settings.HOT_SECONDS,
            "wait_seconds": settings.DEFAULT_RETRY_TIMEOUT,
        },
    }
    response = render(request, "resources/map.html", context)
    response["Content-Security-Policy"] = content_security_policy(settings.RETRY_AFTER_SERVER)
    response["Cache-Control"] = "no-cache"
    return response


@methods.read_only
def icon(_: HttpRequest) -> HttpResponse:
    """`/favicon.ico`, which browsers ask for by themselves beside whatever is no page of this site."""
    response = redirect(static("resources/icon.svg"))
    response["Cache-Control"] = "public, max-age=300"
    return response


def described(layer: LayerView) -> dict[str, Any]:
    """Returns what the page shows of a layer, and what its script needs. Nothing secret."""
    return {
        "slug": layer.slug,
        "title": layer.title,
        "version": layer.version,
        "base": layer.base,
        "order": layer.order,
        "min_zoom": layer.min_zoom,
        "max_zoom": layer.max_zoom,
        "bounds": layer.bounds.as_list(),
        "attribution": layer.attribution,
        "note": layer.note,
        "legend": [] if layer.base else style.legend(layer.kind, layer.style),
        "url": f"/tiles/{layer.slug}/{{z}}/{{x}}/{{y}}{'{r}' if layer.has_scale(2) else ''}.png",
        "tilejson": f"/tiles/{layer.slug}.json",
        "page": reverse("layer", args=[layer.slug]),
    }


def _from_top(layer: LayerView) -> tuple[bool, int, str]:
    """Sorts as `Layer` is sorted: what is drawn on top comes first."""
    return layer.base, -layer.order, layer.slug


def grouped(layers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the layers in the groups of the switches: what is drawn on top comes first."""
    groups = (("Overlays", False), ("Base map", True))
    found = ((title, [layer for layer in layers if layer["base"] is base]) for title, base in groups)
    return [{"title": title, "layers": members} for title, members in found if members]


def content_security_policy(retry_after_server: str) -> str:
    """Returns the page's policy: this site alone, and the waiting instance where it is on another host.

    Tiles are fetched and shown from blobs, so that a busy answer's Retry-After can be obeyed.
    """
    parts = urlsplit(retry_after_server)
    sources = f"'self' {parts.scheme}://{parts.netloc}" if parts.netloc else "'self'"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"img-src {sources} data: blob:; connect-src {sources}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
