"""A GeoJSON file as a list of raw features. PURE; does not look into the features."""

import json
import re
from typing import Any, Never

from ..errors import LayerError

GEOMETRIES = {"Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"}
_LONGITUDE_LATITUDE = re.compile(
    r"(urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?(OGC[:/][\d.]*[:/])?CRS:?84"
    r"|(urn:ogc:def:crs:|https?://www\.opengis\.net/def/crs/)?EPSG[:/]([\d.]*[:/])?4326",
    re.IGNORECASE,
)


def read_raw_features(data: bytes) -> list[Any]:
    """The features of a file, whatever they hold. Raises LayerError when it is not GeoJSON in degrees."""
    return _raw_features(_document(data))


def _document(data: bytes) -> dict[str, Any]:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LayerError("The file is UTF-16; save it as UTF-8.")
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise LayerError(f"The file is not JSON: byte {error.start} is not UTF-8.") from error
    except RecursionError as error:
        raise LayerError("The file is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise _not_json(error) from error
    except ValueError as error:  # int() refuses them
        raise LayerError("The file is not JSON that can be read: a number in it has thousands of digits.") from error
    if not isinstance(document, dict) or "type" not in document:
        raise LayerError("The file is JSON but not GeoJSON: it is not an object with a “type”.")
    _check_reference_system(document.get("crs"))
    return document


def _not_json(error: json.JSONDecodeError) -> LayerError:
    if error.msg == "Extra data" and error.doc[error.pos] in "{\x1e":
        return LayerError(
            "The file holds one JSON value after another (NDJSON), not one GeoJSON object. "
            "Put them into a FeatureCollection: ogr2ogr new.geojson old.geojsonl."
        )
    return LayerError(f"The file is not JSON: it is wrong at line {error.lineno}, column {error.colno}.")


def _refuse_constant(name: str) -> Never:
    raise LayerError(f"The file is not JSON: {name} is not a JSON number.")


def _check_reference_system(crs: Any) -> None:
    """Refuses coordinates other than longitude and latitude, which the member “crs” of older GeoJSON may name."""
    if crs is None:
        return
    properties = crs.get("properties") if isinstance(crs, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if not isinstance(name, str) or not _LONGITUDE_LATITUDE.fullmatch(name.strip()):
        raise LayerError(
            f"The file's “crs” is {str(name)[:80]!r}; a layer takes longitude and latitude (WGS 84). "
            "Convert it: ogr2ogr -t_srs EPSG:4326 -lco RFC7946=YES new.geojson old.geojson."
        )


def _raw_features(document: dict[str, Any]) -> list[Any]:
    kind = document["type"]
    if kind == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list):
            raise LayerError("The FeatureCollection has no list of “features”.")
        if not features:
            raise LayerError("The FeatureCollection is empty.")
        return features
    if kind == "Feature":
        return [document]
    if isinstance(kind, str) and kind in GEOMETRIES:
        return [{"type": "Feature", "geometry": document, "properties": {}}]
    hint = " Convert it to GeoJSON first." if kind == "Topology" else ""
    raise LayerError(f"The file is not GeoJSON: its type is {str(kind)[:40]!r}.{hint}")
