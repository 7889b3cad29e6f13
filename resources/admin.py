"""The admin of layers: their settings, and the upload of their data."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from .models import Layer
from .tiles import apart, conf, geojson, grid, storing
from .tiles.compiling import CompiledLayer, CompiledSpeeds
from .tiles.errors import LayerError, SpeedsError

admin.site.site_header = admin.site.site_title = "Tarry"


class LayerForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    """A layer with files to load. They are compiled while the form is checked, in another process."""

    geometry_file = forms.FileField(
        label="GeoJSON", required=False, help_text="Replaces the data. Lines or areas, according to the kind."
    )
    speeds_file = forms.FileField(
        label="speeds (CSV)", required=False, help_text="segment_id,speed_kmh,free_flow_kmh[,measured_at]"
    )

    class Meta:
        model = Layer
        exclude = ()

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        self.compiled: CompiledLayer | CompiledSpeeds | None = None
        if "kind" not in cleaned or "slug" not in cleaned or self.errors:
            return cleaned
        if not cleaned["geometry_file"] and self._needs_geometry(cleaned["kind"]):
            self.add_error("geometry_file", "A layer of this kind needs its GeoJSON.")
            return cleaned
        try:
            self.compiled = self._compile(cleaned)
        except SpeedsError as error:
            self.add_error("speeds_file", str(error))
        except LayerError as error:
            self.add_error("geometry_file", str(error))
        return cleaned

    def _needs_geometry(self, kind: str) -> bool:
        return not self.instance.geometry_name or kind != self.initial.get("kind", kind)

    def _compile(self, cleaned: dict[str, Any]) -> CompiledLayer | CompiledSpeeds | None:
        """What was uploaded, compiled; None without an upload. Stores nothing."""
        kind = cleaned["kind"]
        with _on_disk(cleaned["geometry_file"]) as geometry, _on_disk(cleaned["speeds_file"]) as speeds:
            if geometry:
                job = apart.LayerJob(kind, geometry, speeds, conf.limits())
                return apart.compile_layer_apart(job, conf.compile_seconds())
            if speeds and kind != Layer.Kind.LINES:
                raise SpeedsError("Only lines have speeds.")
            return _compile_speeds(self.instance, speeds) if speeds else None


def _compile_speeds(layer: Layer, speeds: Path) -> CompiledSpeeds:
    with TemporaryDirectory(prefix="layer-") as folder:
        compiled = Path(folder) / "geometry.npz"
        compiled.write_bytes(storing.read_file(layer.geometry_name))
        return apart.compile_speeds_apart(apart.SpeedsJob(compiled, speeds, conf.limits()), conf.compile_seconds())


@contextmanager
def _on_disk(upload: UploadedFile[bytes] | None) -> Iterator[Path | None]:
    """The path of an uploaded file, None without one. Refuses a big one before it is copied."""
    if not upload:
        yield None
        return
    geojson.check_size(upload.size or 0, conf.limits())
    with TemporaryDirectory(prefix="layer-") as folder:
        path = Path(folder) / "upload"
        with path.open("wb") as file:
            for chunk in upload.chunks():
                file.write(chunk)
        yield path


@admin.register(Layer)
class LayerAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = LayerForm
    list_display = ("slug", "title", "kind", "enabled", "base", "order", "segments", "speeds_known", "updated_at")
    list_filter = ("kind", "enabled", "base")
    search_fields = ("slug", "title")
    readonly_fields = ("preview", "segments", "positions", "speeds_known", "measured_at", "version", "updated_at")
    fieldsets = (
        (None, {"fields": ("slug", "title", "kind", "enabled", "preview")}),
        ("Data", {"fields": ("geometry_file", "speeds_file", "segments", "positions", "speeds_known", "measured_at")}),
        ("Map", {"fields": ("base", "order", "style", "min_zoom", "max_zoom", "bounds", "attribution", "note")}),
        ("Freshness", {"fields": ("fresh_seconds", "stale_seconds", "client_seconds", "version", "updated_at")}),
    )

    @admin.display(description="preview")
    def preview(self, layer: Layer) -> SafeString | str:
        saved = Layer.objects.filter(pk=layer.pk).exclude(geometry_name="").first()
        return _links(saved) if saved else "Load data first."

    def delete_model(self, request: HttpRequest, obj: Layer) -> None:
        storing.delete_layers([obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Layer]) -> None:
        storing.delete_layers(queryset)

    def save_model(self, request: HttpRequest, obj: Layer, form: Any, change: bool) -> None:
        """Saves what was changed in the form and no more: speeds may have come in since it was opened."""
        changed = _model_fields(form.changed_data) if change else None
        try:
            storing.put_in_service(obj, _written(obj.slug, form.compiled), changed)
        except SpeedsError as error:
            self.message_user(request, str(error), messages.ERROR)


def _written(slug: str, compiled: CompiledLayer | CompiledSpeeds | None) -> dict[str, Any]:
    """Writes the files of what was compiled. Answers the fields that name them."""
    match compiled:
        case CompiledLayer():
            return storing.write_files(slug, compiled)
        case CompiledSpeeds():
            return storing.write_speeds(slug, compiled)
        case None:
            return {}


def _model_fields(changed: list[str]) -> set[str]:
    return {name for name in changed if name in {field.name for field in Layer._meta.concrete_fields}}


def _links(layer: Layer) -> SafeString:
    z, x, y = grid.tile_showing(grid.Bounds.parse(layer.bounds), layer.min_zoom, layer.max_zoom)
    tile = reverse("tile", args=[f"{layer.slug}/{z}/{x}/{y}@2x.png"])
    links = (reverse("map"), "Map", tile, "A tile", reverse("tilejson", args=[layer.slug]), "TileJSON")
    return format_html('<a href="{}">{}</a> · <a href="{}">{}</a> · <a href="{}">{}</a>', *links)
