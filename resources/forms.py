"""The form of a layer: its settings, and the upload of its data."""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.forms.fields import InvalidJSONInput

from .tiles import compile_process, conf, layer_files, publication, styles
from .tiles.data import compiler, geojson
from .tiles.data.compiler import CompiledLayer, CompiledSpeeds
from .tiles.errors import LayerError, SpeedsError
from .tiles.metatiles import MetatileSizing
from .tiles.models import WEEK_SECONDS, Layer
from .tiles.publication import NO_DATA_FIELDS, LayerChange

_log = logging.getLogger("tarry.layers")

UPLOAD_FIELDS = {"geometry_file", "speeds_file"}
MAX_JSON_CHARACTERS = 10_000
MAX_JSON_BRACKETS = 100

STYLE_HELP = (
    "Default: the usual style. Lines have widths by zoom, colours, thresholds: "
    '{"widths": {"8": 1, "16": 6}, "colours": {"green": "#2da44e"}, "thresholds": [0.8, 0.5, 0.25]}. '
    'Areas: {"colours": {"fill": "#f4f1ea", "outline": "#b9b2a6"}}. '
    'Points are clusters, heat or dots: {"mode": "heat", "radius": 30, "weight": "mag"}; '
    "the weight is a property of the GeoJSON."
)


class SmallJSONField(forms.JSONField):
    """JSON typed by people. Refuses JSON that no style or bounds need: long, deep, numbers of a thousand digits.

    An empty field is an empty object.
    """

    def __init__(self, **options: Any) -> None:
        # Changes are found by comparing with the layer, not with a hidden copy in the browser.
        super().__init__(**{**options, "show_hidden_initial": False})

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return {}
        if not isinstance(value, str):
            return super().to_python(value)
        try:
            return _parse_small_json(value)
        except (ValueError, RecursionError) as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        if not data or self.disabled:
            return super().bound_data(data or "{}", initial)
        try:
            return _parse_small_json(data)
        except (ValueError, RecursionError):
            return InvalidJSONInput(data)


def _parse_small_json(text: str) -> Any:
    if len(text) > MAX_JSON_CHARACTERS or text.count("[") + text.count("{") > MAX_JSON_BRACKETS:
        raise ValueError("too long or too deep")
    value = json.loads(text)
    json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair cannot be stored
    return value


class LayerForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    """A layer with files to load. Another process compiles them once all else in the form is valid.

    The admin saves: `written` holds the fields that name and describe the new files, `change` the tiles that the new
    data touch, None for the whole layer.
    """

    written: dict[str, Any]
    compiled: CompiledLayer | CompiledSpeeds | None
    change: LayerChange | None

    geometry_file = forms.FileField(
        label="GeoJSON", required=False, help_text="Replaces the data. Lines, areas or points, as the kind says."
    )
    speeds_file = forms.FileField(
        label="Speeds (CSV)", required=False, help_text="Columns: segment_id,speed_kmh,free_flow_kmh[,measured_at]."
    )

    class Meta:
        model = Layer
        exclude = ()
        field_classes = {"style": SmallJSONField, "bounds": SmallJSONField}
        labels = {
            "upstream": "Tile URL",
            "upstream_in_flight": "Own server: requests in flight",
            "most_fresh_seconds": "Longest fresh seconds",
        }
        help_texts = {
            "style": STYLE_HELP,
            "enabled": "Disabled layers answer 404.",
            "upstream": "As https://…/{z}/{x}/{y}.png. {-y}: rows from the south; {q}: quadkey; {s}: a, b or c "
            "in turn, {s:1234}: these; {r}: @2x for dense screens. Respect the server's terms of use.",
            "upstream_in_flight": "Only if the server is yours: requests that it gets at a time, without a gap. "
            "Default: it is asked politely, as a server of others.",
            "bounds": "West, south, east, north in degrees. Tiles outside are empty. Set from new data, unless changed "
            "here too.",
            "slug": "Part of the address: /tiles/SLUG/…",
            "most_fresh_seconds": "Upper limit for the freshness that the server declares; fresh seconds are the lower "
            "limit. Default: a week.",
            "stale_seconds": "Time for which stale tiles are served while they are refreshed.",
            "client_seconds": "Time for which browsers keep a tile. Default: the hot window, so that changes show.",
        }
        widgets = {"upstream": forms.TextInput({"class": "vLargeTextField"})}

    def clean_most_fresh_seconds(self) -> float:
        """Returns the default for an empty field: most kinds of layers have no use for it."""
        given: float | None = self.cleaned_data["most_fresh_seconds"]
        return WEEK_SECONDS if given is None else given

    def clean(self) -> dict[str, Any] | None:
        """Drops the fields of the layer's former kind, unless they were typed just now."""
        cleaned = super().clean() or {}
        if "kind" in self.changed_data:
            is_upstream = cleaned.get("kind") == Layer.Kind.UPSTREAM
            of_former_kind = {"style": {}} if is_upstream else layer_files.NO_UPSTREAM_FIELDS
            cleaned |= {name: nothing for name, nothing in of_former_kind.items() if name not in self.changed_data}
        return cleaned

    def full_clean(self) -> None:
        super().full_clean()
        self.written, self.compiled, self.change = {}, None, None
        if self.is_bound and not self.errors:
            self._take_files(self.cleaned_data)

    def describe_speeds(self) -> str:
        """Describes the result for the uploaded rows, or for the former speeds; empty without either."""
        speeds = self.compiled.speeds if isinstance(self.compiled, CompiledLayer) else self.compiled
        return publication.describe_speeds(speeds) if speeds else ""

    def _take_files(self, cleaned: dict[str, Any]) -> None:
        if cleaned["kind"] == Layer.Kind.UPSTREAM:
            self._refuse_files(cleaned)
            return
        if not cleaned["geometry_file"] and self._needs_geometry(cleaned["kind"]):
            self.add_error("geometry_file", "A layer of this kind needs its GeoJSON.")
            return
        if not cleaned["geometry_file"] and self._weight_changed(cleaned):
            self.add_error("style", "Choose the GeoJSON again: weights are read when points are loaded.")
            return
        field = "geometry_file" if cleaned["geometry_file"] else "speeds_file"
        try:
            self.compiled = self._compile(cleaned)
            self.change = self._change()
            self.written = _write_files(cleaned["slug"], self.compiled)
            if "bounds" in self.changed_data:  # typed beside the upload
                self.written.pop("bounds", None)
            if not cleaned["geometry_file"] and self._cost_changed(cleaned):
                self.written |= _measure_metatiles(self.instance, _metatile_sizing(cleaned))
        except SpeedsError as error:
            self.add_error("speeds_file", str(error))
        except LayerError as error:
            self.add_error(field, str(error))
        except OSError as error:
            self.add_error(field, f"The data could not be stored: {error.strerror or error}.")

    def _refuse_files(self, cleaned: dict[str, Any]) -> None:
        """Refuses files for another server's tiles; the layer's former files go."""
        for name in ("geometry_file", "speeds_file"):
            if cleaned[name]:
                self.add_error(
                    name, "A layer with another server's tiles has no data. Choose another kind, or remove the file."
                )
        if not self.errors and self.instance.geometry_name:
            self.written = {**NO_DATA_FIELDS, "style": cleaned["style"]}

    def _needs_geometry(self, kind: str) -> bool:
        return not self.instance.geometry_name or kind != self.initial.get("kind", kind)

    def _weight_changed(self, cleaned: dict[str, Any]) -> bool:
        weights = [styles.style_weight(style) for style in (self.initial.get("style"), cleaned["style"])]
        return cleaned["kind"] == Layer.Kind.POINTS and weights[0] != weights[1]

    def _cost_changed(self, cleaned: dict[str, Any]) -> bool:
        """Tells whether the time to paint tiles may have changed. Colours do not matter for it."""
        styles = [
            {name: value for name, value in style.items() if name not in ("colours", "thresholds")}
            for style in (self.initial.get("style") or {}, cleaned["style"])
        ]
        return styles[0] != styles[1] or bool({"min_zoom", "max_zoom"} & set(self.changed_data))

    def _compile(self, cleaned: dict[str, Any]) -> CompiledLayer | CompiledSpeeds | None:
        """Compiles the upload; None without one. Stores nothing."""
        kind = cleaned["kind"]
        with _upload_on_disk(cleaned["geometry_file"]) as geometry, _upload_on_disk(cleaned["speeds_file"]) as speeds:
            if geometry:
                weight = styles.style_weight(cleaned["style"])
                job = compile_process.CompileLayerJob(
                    kind, geometry, speeds, conf.layer_limits(), weight, _metatile_sizing(cleaned)
                )
                compiled = compile_process.compile_layer_in_child(job, publication.compile_allowance())
                return publication.keep_stored_speeds(self.initial.get("slug", ""), compiled)
            if speeds and kind != Layer.Kind.LINES:
                raise SpeedsError("Only lines have speeds.")
            return _compile_uploaded_speeds(self.instance, speeds) if speeds else None

    def _change(self) -> LayerChange | None:
        """Returns the tiles that the upload changes; None if other fields of the form were changed too."""
        if self.instance.pk is None or not set(self.changed_data) <= UPLOAD_FIELDS:
            return None
        match self.compiled:
            case CompiledLayer() as compiled:
                return publication.find_layer_change(self.instance.slug, compiled, {}, in_child=True)
            case CompiledSpeeds() as compiled:
                geometry = layer_files.read_file(self.instance.geometry_name)
                return publication.find_replacement_change(self.instance, compiled, geometry, in_child=True)
            case None:
                return None


def _metatile_sizing(cleaned: dict[str, Any]) -> MetatileSizing:
    seconds = settings.LAYER_BLOCK_SECONDS
    return MetatileSizing(cleaned["style"], cleaned["min_zoom"], cleaned["max_zoom"], seconds)


def _measure_metatiles(layer: Layer, sizing: MetatileSizing) -> dict[str, Any]:
    """Measures the sides of the layer's metatiles anew and returns their field; none on failure, so that they stay."""
    try:
        job = partial(sizing.size, publication.read_layer(layer), time.process_time)
        return layer_files.metatile_fields(compile_process.run_in_child(job, publication.compile_allowance()))
    except (LayerError, OSError) as error:
        _log.warning("could not measure a layer's metatiles", extra={"layer": layer.slug, "error": str(error)})
        return {}


def _compile_uploaded_speeds(layer: Layer, speeds: Path) -> CompiledSpeeds:
    try:
        geometry = layer_files.read_file(layer.geometry_name)
    except FileNotFoundError as error:
        raise SpeedsError("The layer's geometry is lost. Load its GeoJSON again.") from error
    read = partial(compiler.compile_speeds, geometry, limits=conf.layer_limits())
    return compile_process.read_speeds_in_child(read, speeds, publication.compile_allowance())


@contextmanager
def _upload_on_disk(upload: "UploadedFile[bytes] | None") -> Iterator[Path | None]:
    """Yields the path of an uploaded file, None without one. Refuses too large a file before copying it."""
    if not upload:
        yield None
        return
    geojson.check_file_size(upload.size or 0, conf.layer_limits())
    with compile_process.upload_folder(conf.uploads_folder()) as folder:
        path = folder / "upload"
        with path.open("wb") as file:
            for chunk in upload.chunks():
                file.write(chunk)
        yield path


def _write_files(slug: str, compiled: CompiledLayer | CompiledSpeeds | None) -> dict[str, Any]:
    """Writes the compiled files. Returns the fields that name them."""
    match compiled:
        case CompiledLayer():
            return layer_files.write_layer_files(slug, compiled)
        case CompiledSpeeds():
            return layer_files.write_speeds_file(slug, compiled)
        case None:
            return {}
