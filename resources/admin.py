"""The admin of layers."""

import time
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.csrf import csrf_protect

from retry import errors

from . import layer_state
from .api.admin import ApiTokenAdmin  # noqa: F401  # it registers itself
from .fetching.admin import domains, headers, timings  # noqa: F401  # as above
from .forms import LayerForm
from .mirroring.admin import batches, blobs, efficiency, hosts, resources, rules  # noqa: F401  # as above
from .models import Layer, whole_world
from .tiles import demand, grid
from .tiles.errors import SpeedsError, UnknownLayerError
from .tiles.keeping import expiring, storing
from .tiles.layers import LayerView
from .warming import layer_costs
from .warming.advice import advise

DATA, PAINTING, UPSTREAM = "Data", "Painting", "Another server's tiles"

admin.site.site_header = admin.site.site_title = "Tarry"


@admin.register(Layer)
class LayerAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = LayerForm
    list_display = ("slug", "title", "listed_kind", "on", "base", "order", "segments", "listed_speeds", "updated_at")
    actions = ("expire", "switch_on", "switch_off")
    list_filter = ("kind", "enabled", "base")
    search_fields = ("slug", "title")
    readonly_fields = (
        *("preview", "segments", "positions", "speeds_known", "measured_at", "version", "updated_at"),
        *("blocks", "traffic", "cost"),
    )
    fieldsets = (
        (None, {"fields": ("slug", "title", "kind", "enabled", "preview")}),
        (UPSTREAM, {"fields": ("upstream", "most_fresh_seconds")}),
        (DATA, {"fields": ("geometry_file", "speeds_file", "segments", "positions", "speeds_known", "measured_at")}),
        ("Map", {"fields": ("base", "order", "style", "min_zoom", "max_zoom", "bounds", "attribution", "note")}),
        (PAINTING, {"fields": ("blocks",)}),
        ("Freshness", {"fields": ("fresh_seconds", "stale_seconds", "client_seconds", "version", "updated_at")}),
        ("Traffic", {"fields": ("traffic",)}),
        ("Cost", {"fields": ("cost",)}),
    )

    class Media:
        css = {"all": ("resources/fetching.css",)}

    def get_fieldsets(self, request: HttpRequest, obj: Layer | None = None) -> Any:
        """All of them, since the kind can be changed; those that the layer's kind has no use for are folded."""
        folded = {DATA, PAINTING} if obj and obj.kind == Layer.Kind.UPSTREAM else {UPSTREAM}
        return [
            (title, {**options, "classes": ["collapse"]} if title in folded else options)
            for title, options in super().get_fieldsets(request, obj)
        ]

    @admin.display(description="painted in blocks")
    def blocks(self, layer: Layer) -> str:
        """What was measured when the geometry was loaded."""
        saved = Layer.objects.filter(pk=layer.pk).first()
        return (saved and layer_state.describe_blocks(LayerView.of(saved).block_sides())) or "No: tiles one by one."

    @admin.display(description="kind", ordering="kind")
    def listed_kind(self, layer: Layer) -> str:
        return layer.kind

    @admin.display(description="on", ordering="enabled", boolean=True)
    def on(self, layer: Layer) -> bool:
        return layer.enabled

    @admin.display(description="speeds", ordering="speeds_known")
    def listed_speeds(self, layer: Layer) -> int:
        return layer.speeds_known

    @admin.display(description="preview")
    def preview(self, layer: Layer) -> SafeString | str:
        saved = Layer.objects.filter(pk=layer.pk).with_tiles().first()
        if saved is None:
            return "Load data first, or name another server's tiles."
        return _links(saved) if saved.enabled else "The layer is switched off."

    @admin.display(description="requests")
    def traffic(self, layer: Layer) -> str:
        if not settings.OBSERVE:
            return "Requests are not counted (OBSERVE=0)."
        saved = Layer.objects.filter(pk=layer.pk).first()  # what is in the form may be no bounds
        bounds = saved.bounds if saved else whole_world()
        try:
            found = demand.demand(layer.slug, time.time(), grid.Bounds.parse(bounds))
        except errors.StoreUnavailable:
            return "Not known now: Redis does not answer."
        hours = settings.POPULARITY_HALF_LIFE_SECONDS / 3600
        return render_to_string("resources/demand.html", {"demand": found, "half_life_hours": hours})

    @admin.display(description="by zoom")
    def cost(self, layer: Layer) -> str:
        """What it takes to prepare the layer entirely, and how much of the requests each zoom has."""
        saved = Layer.objects.filter(pk=layer.pk).with_tiles().first()
        if saved is None:
            return "Load data first, or name another server's tiles."
        try:
            zooms = layer_costs.zoom_costs(LayerView.of(saved))
        except errors.StoreUnavailable:
            return "Not known now: Redis does not answer."
        return render_to_string("resources/costs.html", {"zooms": zooms, "advice": list(advise(saved.slug, zooms))})

    @admin.action(description="Expire", permissions=["change"])
    def expire(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        done = []
        for layer in queryset:
            with suppress(UnknownLayerError):  # somebody else deleted it just now
                done.append(expiring.expire(layer.slug).slug)
        self.message_user(request, f"Tiles are prepared anew: {', '.join(done)}.")

    @admin.action(description="Switch on", permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        self._save_each(request, queryset, "Switched on: {}.", enabled=True)

    @admin.action(description="Switch off", permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        self._save_each(request, queryset, "Switched off: {}.", enabled=False)

    def _save_each(self, request: HttpRequest, layers: QuerySet[Layer], said: str, **fields: bool) -> None:
        """Saves each under a new version, with some fields set."""
        done = []
        for layer in layers:
            for name, value in fields.items():
                setattr(layer, name, value)
            layer.save(update_fields=fields)
            done.append(layer.slug)
        self.message_user(request, said.format(", ".join(done)))

    def delete_model(self, request: HttpRequest, obj: Layer) -> None:
        storing.delete_layers([obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        storing.delete_layers(queryset)

    @method_decorator(csrf_protect)
    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Shows or saves the form. Not in one transaction: a file is compiled for up to a minute meanwhile.

        Django's own would hold SQLite's only write lock for all that time.
        """
        try:
            answer: HttpResponse = self._changeform_view(  # type: ignore[attr-defined]  # not in the stubs
                request, object_id, form_url, extra_context
            )
        except (SpeedsError, DatabaseError, OSError) as error:
            if request.method != "POST":
                raise
            self.message_user(request, f"Nothing was saved: {error}", messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        return answer

    def save_model(self, request: HttpRequest, obj: Layer, form: Any, change: bool) -> None:
        """Saves what was changed in the form and no more: speeds may have come in since it was opened."""
        changed = _model_fields(form.changed_data) if change else None
        storing.put_in_service(obj, form.written, changed, change=form.change)
        if said := form.describe_speeds():
            self.message_user(request, said)


def _model_fields(changed: list[str]) -> set[str]:
    return {name for name in changed if name in {field.name for field in Layer._meta.concrete_fields}}


def _links(layer: Layer) -> SafeString:
    bounds = grid.Bounds.parse(layer.bounds)
    z, x, y = grid.tile_showing(bounds, layer.min_zoom, layer.max_zoom)
    longitude, latitude = bounds.middle()
    zoom = grid.zoom_around(bounds, layer.min_zoom, layer.max_zoom)
    place = f"{reverse('map')}#{zoom}/{latitude:.5f}/{longitude:.5f}"
    tile = reverse("tile", args=[f"{layer.slug}/{z}/{x}/{y}{'@2x' if layer.has_dense_tiles else ''}.png"])
    links = (
        (reverse("layer", args=[layer.slug]), "Its page"),
        (place, "Map"),
        (tile, "A tile"),
        (reverse("tilejson", args=[layer.slug]), "TileJSON"),
    )
    return format_html_join(" · ", '<a href="{}">{}</a>', links)
