"""The files of layers in the storage, each under a name of its own. Rows name the files in service."""

import logging
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import Error as DatabaseError
from django.db.models import Q

from .. import database
from ..disk import room
from .data.compiler import CompiledLayer, CompiledSpeeds
from .errors import LayerStorageError
from .models import Layer

NO_UPSTREAM_FIELDS: Mapping[str, Any] = {"upstream": "", "upstream_in_flight": None}
"""The fields of a layer without another server."""

_log = logging.getLogger("tarry.layers")


def read_file(name: str) -> bytes:
    """Reads a file of the storage. Raises FileNotFoundError or LayerStorageError."""
    with _storage_errors(), default_storage.open(name) as file:
        data: bytes = file.read()
        return data


def write_layer_files(slug: str, compiled: CompiledLayer) -> dict[str, Any]:
    """Writes both files. Returns the fields of the layer that name and describe them."""
    written = {"geometry_name": _write_file(slug, compiled.geometry)}
    with discard_on_failure(written):
        return {
            **written,
            **write_speeds_file(slug, compiled.speeds),
            "kind": compiled.kind,
            **NO_UPSTREAM_FIELDS,
            "bounds": compiled.bounds.rounded().as_list(),
            "geometry_digest": sha256(compiled.geometry).hexdigest(),
            "segments": compiled.segments,
            "positions": compiled.positions,
            **metatile_fields(compiled),
        }


def metatile_fields(compiled: CompiledLayer) -> dict[str, Any]:
    return {"metatiles": {str(zoom): side for zoom, side in compiled.metatiles.items()}}


def write_speeds_file(slug: str, compiled: CompiledSpeeds) -> dict[str, Any]:
    return {
        "speeds_name": _write_file(slug, compiled.data),
        "speeds_known": compiled.known,
        "measured_at": compiled.report.measured_at if compiled.report else None,
    }


@contextmanager
def discard_on_failure(written: Mapping[str, Any]) -> Iterator[None]:
    """Deletes the files written for a row if the row is not saved, for any reason."""
    try:
        yield
    except BaseException:  # Ctrl-C too: the files could not be found again
        delete_unused_files(name for name in (written.get("geometry_name"), written.get("speeds_name")) if name)
        raise


def delete_unused_files(names: Iterable[str]) -> None:
    """Deletes files that no layer names. A painter that misses one looks the layer up again."""
    for name in filter(None, names):
        try:
            if not Layer.objects.filter(Q(geometry_name=name) | Q(speeds_name=name)).exists():
                with _storage_errors():
                    default_storage.delete(name)
        except (OSError, DatabaseError) as error:  # the data in service is whole; only an unused file remains
            _log.warning("could not delete a layer's file", extra={"file": name, "error": str(error)})


def _write_file(slug: str, data: bytes) -> str:
    """Writes data under a name of its own, so that no other writer deletes it. Returns the name."""
    name = f"layers/{slug}/{sha256(data).hexdigest()}-{secrets.token_hex(4)}.npz"
    try:
        with _storage_errors():
            room.take_storage_room(len(data))
            return default_storage.save(name, ContentFile(data))
    except BaseException:
        delete_unused_files([name])  # it may have been cut short
        raise


def _storage_errors() -> AbstractContextManager[None]:
    """Times the storage and turns its errors into LayerStorageError, except for a missing file."""
    return database.storage_call(_storage_error)


def _storage_error(error: Exception) -> LayerStorageError:
    if isinstance(error, OSError):
        return LayerStorageError(*error.args)
    return LayerStorageError(f"the storage answered: {error}")
