"""The form of a layer: its settings, and the upload of its data."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.forms.fields import InvalidJSONInput

from .models import WEEK_SECONDS, Layer
from .tiles import conf
from .tiles.errors import LayerError, SpeedsError
from .tiles.keeping import allowing, apart, files, storing, touching, uploads
from .tiles.keeping.touching import Change
from .tiles.reading import geojson
from .tiles.reading.compiling import CompiledLayer, CompiledSpeeds
from .tiles.sizing.sides import Sizing
from .tiles.styling import point_style
from .upstream.storing import NO_DATA

_log = logging.getLogger("tarry.layers")

UPLOADS = {"geometry_file", "speeds_file"}
MAX_JSON_LENGTH = 10_000
MAX_JSON_BRACKETS = 100

STYLE_HELP = (
    "Empty is as it comes. Lines have widths by zoom, colours, thresholds: "
    '{"widths": {"8": 1, "16": 6}, "colours": {"green": "#2da44e"}, "thresholds": [0.8, 0.5, 0.25]}. '
    'Areas: {"colours": {"fill": "#f4f1ea", "outline": "#b9b2a6"}}. '
    'Points are clusters, heat or dots: {"mode": "heat", "radius": 30, "weight": "mag"}; '
    "the weight is a property of the GeoJSON."
)


class SmallJSONField(forms.JSONField):
    """JSON as people type it. Refuses what no style or bounds need: long, deep, numbers of a thousand digits.

    An empty field is an empty object.
    """

    def __init__(self, **options: Any) -> None:
        # Whether it was changed is told by the layer, not by a hidden copy of what the browser got.
        super().__init__(**{**options, "show_hidden_initial": False})

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return {}
        if not isinstance(value, str):
            return super().to_python(value)
        try:
            return _small_json(value)
        except (ValueError, RecursionError) as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        if not data or self.disabled:
            return super().bound_data(data or "{}", initial)
        try:
            return _small_json(data)
        except (ValueError, RecursionError):
            return InvalidJSONInput(data)


def _small_json(text: str) -> Any:
    if len(text) > MAX_JSON_LENGTH or text.count("[") + text.count("{") > MAX_JSON_BRACKETS:
        raise ValueError("too long or too deep")
    value = json.loads(text)
    json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair cannot be stored
    return value


class LayerForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's classes take no parameters
    """A layer with files to load. They are compiled, in another process, when all else in the form is sound.

    Saving is left to the admin: `written` are the fields that name and describe the new files, `change` is what the
    new data touch, None where that is all of the layer.
    """

    written: dict[str, Any]
    compiled: CompiledLayer | CompiledSpeeds | None
    change: Change | None

    geometry_file = forms.FileField(
        label="GeoJSON", required=False, help_text="Replaces the data. Lines, areas or points, according to the kind."
    )
    speeds_file = forms.FileField(
        label="speeds (CSV)", required=False, help_text="segment_id,speed_kmh,free_flow_kmh[,measured_at]"
    )

    class Meta:
        model = Layer
        exclude = ()
        field_classes = {"style": SmallJSONField, "bounds": SmallJSONField}
        help_texts = {"style": STYLE_HELP}
        widgets = {"upstream": forms.TextInput({"class": "vLargeTextField"})}

    def clean_most_fresh_seconds(self) -> float:
        """Its default when it is left empty: most kinds of layers have no use for it."""
        given: float | None = self.cleaned_data["most_fresh_seconds"]
        return WEEK_SECONDS if given is None else given

    def clean(self) -> dict[str, Any] | None:
        """Lets go of what belongs to the kind that the layer had before, unless it was typed just now."""
        cleaned = super().clean() or {}
        if "kind" in self.changed_data:
            name, nothing = ("style", {}) if cleaned.get("kind") == Layer.Kind.UPSTREAM else ("upstream", "")
            if name not in self.changed_data:
                cleaned[name] = nothing
        return cleaned

    def full_clean(self) -> None:
        super().full_clean()
        self.written, self.compiled, self.change = {}, None, None
        if self.is_bound and not self.errors:
            self._take_files(self.cleaned_data)

    def describe_speeds(self) -> str:
        """What became of the rows that were uploaded, or of the speeds from before; empty without either."""
        match self.compiled:
            case CompiledLayer(speeds=speeds):
                return storing.describe_speeds(speeds)
            case CompiledSpeeds() as speeds:
                return storing.describe_speeds(speeds)
            case None:
                return ""

    def _take_files(self, cleaned: dict[str, Any]) -> None:
        if cleaned["kind"] == Layer.Kind.UPSTREAM:
            self._take_no_files(cleaned)
            return
        if not cleaned["geometry_file"] and self._needs_geometry(cleaned["kind"]):
            self.add_error("geometry_file", "A layer of this kind needs its GeoJSON.")
            return
        if not cleaned["geometry_file"] and self._weighs_otherwise(cleaned):
            self.add_error("style", "Choose the GeoJSON again: points are weighed when they are loaded.")
            return
        field = "geometry_file" if cleaned["geometry_file"] else "speeds_file"
        try:
            self.compiled = self._compile(cleaned)
            self.change = self._change()
            self.written = _written(cleaned["slug"], self.compiled)
            if "bounds" in self.changed_data:  # typed beside the upload
                self.written.pop("bounds", None)
            if not cleaned["geometry_file"] and self._costs_otherwise(cleaned):
                self.written |= _measured(self.instance, _sizing(cleaned))
        except SpeedsError as error:
            self.add_error("speeds_file", str(error))
        except LayerError as error:
            self.add_error(field, str(error))
        except OSError as error:
            self.add_error(field, f"The storage did not take the data: {error.strerror or error}.")

    def _take_no_files(self, cleaned: dict[str, Any]) -> None:
        """Another server's tiles need none; those that the layer had before go."""
        for name in ("geometry_file", "speeds_file"):
            if cleaned[name]:
                self.add_error(name, "Tiles of another server have no data. Choose another kind, or no file.")
        if not self.errors and self.instance.geometry_name:
            self.written = {**NO_DATA, "style": cleaned["style"]}

    def _needs_geometry(self, kind: str) -> bool:
        return not self.instance.geometry_name or kind != self.initial.get("kind", kind)

    def _weighs_otherwise(self, cleaned: dict[str, Any]) -> bool:
        """Whether points are to be weighed by another property than when they were loaded."""
        weights = [point_style.weight_of(style) for style in (self.initial.get("style"), cleaned["style"])]
        return cleaned["kind"] == Layer.Kind.POINTS and weights[0] != weights[1]

    def _costs_otherwise(self, cleaned: dict[str, Any]) -> bool:
        """Whether tiles may take another time to paint than before; which colours they have is all the same."""
        styles = [
            {name: value for name, value in style.items() if name not in ("colours", "thresholds")}
            for style in (self.initial.get("style") or {}, cleaned["style"])
        ]
        return styles[0] != styles[1] or bool({"min_zoom", "max_zoom"} & set(self.changed_data))

    def _compile(self, cleaned: dict[str, Any]) -> CompiledLayer | CompiledSpeeds | None:
        """What was uploaded, compiled; None without an upload. Stores nothing."""
        kind = cleaned["kind"]
        with _on_disk(cleaned["geometry_file"]) as geometry, _on_disk(cleaned["speeds_file"]) as speeds:
            if geometry:
                weight = point_style.weight_of(cleaned["style"])
                job = apart.LayerJob(kind, geometry, speeds, conf.limits(), weight, _sizing(cleaned))
                compiled = apart.compile_layer_apart(job, allowing.allowance())
                return storing.keep_speeds(self.initial.get("slug", ""), compiled)
            if speeds and kind != Layer.Kind.LINES:
                raise SpeedsError("Only lines have speeds.")
            return _compile_speeds(self.instance, speeds) if speeds else None

    def _change(self) -> Change | None:
        """What uploaded data change in a layer of which nothing else was changed in the form."""
        if self.instance.pk is None or not set(self.changed_data) <= UPLOADS:
            return None
        match self.compiled:
            case CompiledLayer() as compiled:
                return storing.change_of(self.instance.slug, compiled, {}, touching.by_data_aside)
            case CompiledSpeeds() as compiled:
                geometry = files.read(self.instance.geometry_name)
                return storing.change_by_speeds(self.instance, compiled, geometry, touching.aside)
            case None:
                return None


def _sizing(cleaned: dict[str, Any]) -> Sizing:
    return Sizing(cleaned["style"], cleaned["min_zoom"], cleaned["max_zoom"], conf.block_seconds())


def _measured(layer: Layer, sizing: Sizing) -> dict[str, Any]:
    """The field of the sides of the layer's blocks, measured anew; none, and they stay, when that fails."""
    try:
        job = apart.SizingJob(storing.read_layer(layer), sizing)
        return files.block_fields(apart.size_apart(job, allowing.allowance()))
    except (LayerError, OSError) as error:
        _log.warning("could not measure a layer's blocks", extra={"layer": layer.slug, "error": str(error)})
        return {}


def _compile_speeds(layer: Layer, speeds: Path) -> CompiledSpeeds:
    with uploads.folder(conf.uploads()) as folder:
        compiled = folder / "geometry.npz"
        try:
            compiled.write_bytes(files.read(layer.geometry_name))
        except FileNotFoundError as error:
            raise SpeedsError("The layer's geometry is lost. Load its GeoJSON again.") from error
        job = apart.SpeedsJob(compiled, speeds, conf.limits())
        return apart.compile_speeds_apart(job, allowing.allowance())


@contextmanager
def _on_disk(upload: UploadedFile[bytes] | None) -> Iterator[Path | None]:
    """The path of an uploaded file, None without one. Refuses a big one before it is copied."""
    if not upload:
        yield None
        return
    geojson.check_size(upload.size or 0, conf.limits())
    with uploads.folder(conf.uploads()) as folder:
        path = folder / "upload"
        with path.open("wb") as file:
            for chunk in upload.chunks():
                file.write(chunk)
        yield path


def _written(slug: str, compiled: CompiledLayer | CompiledSpeeds | None) -> dict[str, Any]:
    """Writes the files of what was compiled. Answers the fields that name them."""
    match compiled:
        case CompiledLayer():
            return files.write(slug, compiled)
        case CompiledSpeeds():
            return files.write_speeds(slug, compiled)
        case None:
            return {}
