"""The admin of layers, with the requests and costs on a layer's page, of API tokens, and of machines.

Imports the other admins of the app, which register themselves.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST
from redis.exceptions import RedisError

from retry import errors, stores

from . import machines
from .fetch.admin import domains, forms  # noqa: F401  # they register themselves
from .fetch.frontier import queue
from .forms import LayerForm
from .humanize import format_duration, format_size
from .mirror.admin import batches, hosts_rules, mirrored_files, resources  # noqa: F401  # as above
from .models import Machine
from .prewarm import admin as prewarm_admin  # noqa: F401  # as above
from .prewarm import tile_pieces
from .prewarm.pieces import advise_zooms
from .tiles import demand, grid, layer_state, publication, work
from .tiles.errors import SpeedsError, UnknownLayerError
from .tiles.layers import LayerView
from .tiles.models import Layer, whole_world
from .tokens import auth
from .tokens.models import ALL_LAYERS, ApiToken

TOKEN_HELP = {
    "name": "The user or program that uses the token.",
    "prefix": "The first characters of the token.",
    "layers": "Slugs of the layers that the token may change, separated by spaces; * for all layers. Default: none.",
    "may_mirror": "May report URLs for mirroring, sign their addresses and read their state.",
    "may_take_down": "May permanently take down any mirrored file.",
    "may_manage_feeds": "May add, change, fetch and remove feeds, and read their addresses.",
    "user": "The user who follows feeds by this token. Default: none.",
    "expires_at": "Default: never.",
    "last_used_at": "",
}


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    list_display = (
        *("name", "prefix", "listed_layers", "may_mirror", "may_take_down", "may_manage_feeds"),
        *("enabled", "expires_at", "last_used_at"),
    )
    list_filter = ("enabled",)
    search_fields = ("name", "prefix", "layers")
    fields = (
        *("name", "layers", "may_mirror", "may_take_down", "may_manage_feeds", "user", "enabled", "expires_at"),
        *("prefix", "created_at", "last_used_at"),
    )
    autocomplete_fields = ("user",)
    readonly_fields = ("prefix", "created_at", "last_used_at")

    def get_form(self, request: HttpRequest, obj: ApiToken | None = None, change: bool = False, **options: Any) -> Any:
        return super().get_form(request, obj, change, **{**options, "help_texts": TOKEN_HELP})

    @admin.display(description="layers")
    def listed_layers(self, token: ApiToken) -> str:
        return "all" if token.layers == ALL_LAYERS else token.layers or "none"

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Saves the settings of a token, and says what it may do. A new one gets its text, for this request alone."""
        if change:
            super().save_model(request, obj, form, change)
            self.message_user(request, obj.describe_rights())
        else:
            request.META["tarry.token"] = auth.issue_token(obj).text

    def response_add(self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None) -> HttpResponse:
        """Returns the page with the token. A message would be carried in a cookie."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": obj,
            "title": f"The token “{obj}”",
            "token": request.META["tarry.token"],
            "rights": obj.describe_rights(),
        }
        return TemplateResponse(request, "admin/resources/apitoken/issued.html", context)


DATA_SECTION, PAINTING_SECTION, UPSTREAM_SECTION = "Data", "Painting", "Another server's tiles"

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
        *("metatile_sides", "traffic", "cost"),
    )
    fieldsets = (
        (None, {"fields": ("slug", "title", "kind", "enabled", "preview")}),
        (UPSTREAM_SECTION, {"fields": ("upstream", "upstream_in_flight", "most_fresh_seconds")}),
        (
            DATA_SECTION,
            {"fields": ("geometry_file", "speeds_file", "segments", "positions", "speeds_known", "measured_at")},
        ),
        ("Map", {"fields": ("base", "order", "style", "min_zoom", "max_zoom", "bounds", "attribution", "note")}),
        (PAINTING_SECTION, {"fields": ("metatile_sides",)}),
        ("Freshness", {"fields": ("fresh_seconds", "stale_seconds", "client_seconds", "version", "updated_at")}),
        ("Traffic", {"fields": ("traffic",)}),
        ("Cost", {"fields": ("cost",)}),
    )

    class Media:
        css = {"all": ("resources/fetch.css",)}

    def get_fieldsets(self, request: HttpRequest, obj: Layer | None = None) -> Any:
        """Returns all of them, since the kind can be changed; the ones of no use to the layer's kind are folded."""
        folded = {DATA_SECTION, PAINTING_SECTION} if obj and obj.kind == Layer.Kind.UPSTREAM else {UPSTREAM_SECTION}
        return [
            (title, {**options, "classes": ["collapse"]} if title in folded else options)
            for title, options in super().get_fieldsets(request, obj)
        ]

    @admin.display(description="metatiles")
    def metatile_sides(self, layer: Layer) -> str:
        """The metatile sizes measured when the geometry was loaded."""
        saved = Layer.objects.filter(pk=layer.pk).first()
        return (
            saved and layer_state.describe_metatiles(LayerView.of(saved).metatile_sides())
        ) or "None: tiles are painted singly."

    @admin.display(description="kind", ordering="kind")
    def listed_kind(self, layer: Layer) -> str:
        return layer.kind

    @admin.display(description="enabled", ordering="enabled", boolean=True)
    def on(self, layer: Layer) -> bool:
        return layer.enabled

    @admin.display(description="speeds", ordering="speeds_known")
    def listed_speeds(self, layer: Layer) -> int:
        return layer.speeds_known

    @admin.display(description="preview")
    def preview(self, layer: Layer) -> SafeString | str:
        saved = Layer.objects.filter(pk=layer.pk).with_tiles().first()
        if saved is None:
            return "Load data first, or set the address of another server's tiles."
        return _layer_links(saved) if saved.enabled else "The layer is disabled."

    @admin.display(description="requests")
    def traffic(self, layer: Layer) -> str:
        if not settings.OBSERVE:
            return "Requests are not counted (OBSERVE=0)."
        saved = Layer.objects.filter(pk=layer.pk).first()  # the form may hold no valid bounds
        bounds = saved.bounds if saved else whole_world()
        try:
            found = demand.load_demand(layer.slug, time.time(), grid.Bounds.parse(bounds))
        except errors.StoreUnavailable:
            return "Unknown: Redis does not answer."
        hours = settings.POPULARITY_HALF_LIFE_SECONDS / 3600
        return render_to_string("resources/demand.html", {"demand": found, "half_life_hours": hours})

    @admin.display(description="by zoom")
    def cost(self, layer: Layer) -> str:
        """The cost of preparing the whole layer, and each zoom's share of the requests."""
        saved = Layer.objects.filter(pk=layer.pk).with_tiles().first()
        if saved is None:
            return "Load data first, or set the address of another server's tiles."
        try:
            zooms = tile_pieces.load_zoom_costs(LayerView.of(saved))
        except errors.StoreUnavailable:
            return "Unknown: Redis does not answer."
        return render_to_string(
            "resources/costs.html", {"zooms": zooms, "advice": list(advise_zooms(saved.slug, zooms))}
        )

    @admin.action(description="Expire tiles", permissions=["change"])
    def expire(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        done = []
        for layer in queryset:
            with suppress(UnknownLayerError):  # another admin deleted it just now
                done.append(work.expire_layer(layer.slug).slug)
        self.message_user(request, f"Tiles expired: {', '.join(done)}.")

    @admin.action(description="Enable", permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        self._switch(request, queryset, "Enabled", enabled=True)

    @admin.action(description="Disable", permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        self._switch(request, queryset, "Disabled", enabled=False)

    def _switch(self, request: HttpRequest, layers: QuerySet[Layer], summary: str, *, enabled: bool) -> None:
        """Saves each layer under a new version."""
        for layer in layers:
            layer.enabled = enabled
            layer.save(update_fields=("enabled",))
        self.message_user(request, f"{summary}: {', '.join(layer.slug for layer in layers)}.")

    def delete_model(self, request: HttpRequest, obj: Layer) -> None:
        publication.delete_layers([obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        publication.delete_layers(queryset)

    @method_decorator(csrf_protect)
    def changeform_view(self, request: HttpRequest, *args: Any, **options: Any) -> HttpResponse:
        """Shows or saves the form. Not in one transaction: compiling a file takes up to a minute.

        Django's own transaction would hold SQLite's only write lock for all that time.
        """
        try:
            changed = self._changeform_view(request, *args, **options)  # type: ignore[attr-defined]  # not in the stubs
        except (SpeedsError, DatabaseError, OSError) as error:
            if request.method != "POST":
                raise
            self.message_user(request, f"Nothing was saved: {error}", messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())
        return cast(HttpResponse, changed)

    def save_model(self, request: HttpRequest, obj: Layer, form: Any, change: bool) -> None:
        """Saves only the fields changed in the form: speeds may have come in since it was opened."""
        fields = {field.name for field in Layer._meta.concrete_fields}
        changed = fields & set(form.changed_data) if change else None
        publication.publish_layer(obj, form.written, changed, change=form.change)
        if report := form.describe_speeds():
            self.message_user(request, report)


def _layer_links(layer: Layer) -> SafeString:
    bounds = grid.Bounds.parse(layer.bounds)
    z, x, y = grid.tile_around(bounds, layer.min_zoom, layer.max_zoom)
    longitude, latitude = bounds.middle()
    zoom = grid.zoom_around(bounds, layer.min_zoom, layer.max_zoom)
    place = f"{reverse('map')}#{zoom}/{latitude:.5f}/{longitude:.5f}"
    tile = reverse("tile", args=[f"{layer.slug}/{z}/{x}/{y}{'@2x' if layer.has_dense_tiles else ''}.png"])
    links = (
        (reverse("layer", args=[layer.slug]), "Layer page"),
        (place, "Map"),
        (tile, "Sample tile"),
        (reverse("tilejson", args=[layer.slug]), "TileJSON"),
    )
    return format_html_join(" · ", '<a href="{}">{}</a>', links)


@dataclass(frozen=True, slots=True)
class MachineRow:
    """A machine as the page shows it: in words."""

    name: str
    is_own: bool
    is_heard: bool
    troubles: tuple[str, ...]
    heard: str
    roles: str
    processes: str
    queues: str
    domains: str
    """The share of the domains that its fetchers own."""
    disk: str
    clock: str
    version: str

    @classmethod
    def describe(cls, one: machines.HeardMachine, troubles: Sequence[str], owned: float) -> "MachineRow":
        ago = format_duration(one.heard_ago_seconds)
        counts = one.count_by_role().items()
        share = one.disk_free_bytes / one.disk_bytes if one.disk_bytes else 0.0
        up = f", {format_duration(one.up_seconds)}" if one.is_alive else ""
        return cls(
            name=one.name,
            is_own=one.name == settings.MACHINE,
            is_heard=one.is_alive,
            troubles=tuple(troubles),
            heard=f"{ago} ago" + ("" if one.condition == machines.RUNNING else f", {one.condition}"),
            roles=", ".join(one.roles),
            processes=", ".join(f"{role} {_format_count(*number)}" for role, number in counts),
            queues=", ".join(one.queues) or "none",
            domains=f"{owned:.0%}" if owned else "none",
            disk=f"{format_size(one.disk_free_bytes)} ({share:.0%}){_describe_bound(one)}",
            clock=f"{round(one.skew_seconds, 1) or 0.0:+.1f} s",
            version=f"{one.version}{up}",
        )


def _describe_bound(one: machines.HeardMachine) -> str:
    """What its site takes of DISK_MAX_BYTES; empty without a bound."""
    taken = format_size(sum(one.disk_parts.values()))
    return f"; the site takes {taken} of {format_size(one.disk_max_bytes)}" if one.disk_max_bytes else ""


def _format_count(running: int, wanted: int) -> str:
    return str(running) if running == wanted else f"{running} of {wanted}"


def _list_troubles(one: machines.HeardMachine, found: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield from (text for name, text in found if name == one.name)
    stopped = [process.name for process in one.processes if one.is_alive and not process.is_running]
    if stopped and one.condition == machines.RUNNING:
        yield f"not running: {', '.join(stopped)}"


@admin.register(Machine)
class MachineAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    """The page of all machines. One that is not heard can be forgotten: it will not come back."""

    def get_urls(self) -> list[URLPattern]:
        forget = self.admin_site.admin_view(require_POST(self.forget_view))
        return [path("forget/<path:name>/", forget, name="resources_machine_forget"), *super().get_urls()]

    def forget_view(self, request: HttpRequest, name: str) -> HttpResponse:
        if not self.has_delete_permission(request):
            raise PermissionDenied
        try:
            is_forgotten = machines.forget_machine(stores.fast_client("state"), name)
        except RedisError:
            self.message_user(request, "Nothing was changed: Redis does not answer.", messages.ERROR)
        else:
            said = f"Forgotten: {name}." if is_forgotten else f"{name} is heard, or not known: nothing was changed."
            self.message_user(request, said, messages.SUCCESS if is_forgotten else messages.WARNING)
        return HttpResponseRedirect(reverse("admin:resources_machine_changelist"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Machine | None = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Machines",
            "may_forget": self.has_delete_permission(request),
            "overdue_seconds": machines.OVERDUE_SECONDS,
            **_describe_machines(),
        }
        return TemplateResponse(request, "admin/resources/machine/change_list.html", context)


def _share_domains(parts: Mapping[str, int]) -> dict[str, float]:
    """The share of the domains that the fetchers of each machine own, of 1."""
    owned: Counter[str] = Counter()
    for fetcher, number in parts.items():
        owned[fetcher.rpartition(":")[0]] += number
    return {machine: number / owned.total() for machine, number in owned.items() if number}


def _describe_machines() -> dict[str, Any]:
    try:
        found = machines.read_machines(stores.fast_client("state"))
        parts = stores.run_steps(queue.read_owned_parts())
    except (RedisError, errors.StoreUnavailable):
        return {"word": "unknown", "summary": "Redis does not answer."}
    troubles = list(machines.list_troubles(found))
    owned = _share_domains(parts)
    rows = [MachineRow.describe(one, list(_list_troubles(one, troubles)), owned.get(one.name, 0.0)) for one in found]
    wrong = [row.name for row in rows if row.troubles]
    heard = sum(one.is_alive for one in found)
    summary = f"{heard} of {len(found)} heard." + (f" Trouble: {', '.join(wrong)}." if wrong else "")
    return {"word": "trouble" if wrong else "well", "summary": summary, "rows": rows}
