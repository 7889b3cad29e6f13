"""The files of layers in the storage, each under a name of its own. Rows name those that are in service."""

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

from resources import storages
from resources.models import Layer

from ..errors import StorageError
from ..reading.compiling import CompiledLayer, CompiledSpeeds

_log = logging.getLogger("tarry.layers")


def read(name: str) -> bytes:
    """A file of the storage. Raises FileNotFoundError or StorageError."""
    with _storage(), default_storage.open(name) as file:
        data: bytes = file.read()
        return data


def write(slug: str, compiled: CompiledLayer) -> dict[str, Any]:
    """Writes both files. Answers the fields of the layer that name and describe them."""
    written = {"geometry_name": _write(slug, compiled.geometry)}
    with discarded_on_failure(written):
        return {
            **written,
            **write_speeds(slug, compiled.speeds),
            "kind": compiled.kind,
            "upstream": "",
            "bounds": compiled.bounds.rounded().as_list(),
            "geometry_digest": sha256(compiled.geometry).hexdigest(),
            "segments": compiled.segments,
            "positions": compiled.positions,
            **block_fields(compiled),
        }


def block_fields(compiled: CompiledLayer) -> dict[str, Any]:
    return {"metatiles": {str(zoom): side for zoom, side in compiled.metatiles.items()}}


def write_speeds(slug: str, compiled: CompiledSpeeds) -> dict[str, Any]:
    return {
        "speeds_name": _write(slug, compiled.data),
        "speeds_known": compiled.known,
        "measured_at": compiled.report.measured_at if compiled.report else None,
    }


@contextmanager
def discarded_on_failure(written: Mapping[str, Any]) -> Iterator[None]:
    """Deletes files that were written for a row when the row is not saved, whatever the reason."""
    try:
        yield
    except BaseException:  # Ctrl-C too: nobody would find the files again
        delete_unused(name for name in (written.get("geometry_name"), written.get("speeds_name")) if name)
        raise


def delete_unused(names: Iterable[str]) -> None:
    """Deletes files that no layer names. A painter that misses one looks the layer up again."""
    for name in filter(None, names):
        try:
            if not Layer.objects.filter(Q(geometry_name=name) | Q(speeds_name=name)).exists():
                with _storage():
                    default_storage.delete(name)
        except (OSError, DatabaseError) as error:  # the data in service is whole; what remains is a file too many
            _log.warning("could not delete a layer's file", extra={"file": name, "error": str(error)})


def _write(slug: str, data: bytes) -> str:
    """Writes data under a name of its own, so that no other writer deletes it. Answers the name."""
    name = f"layers/{slug}/{sha256(data).hexdigest()}-{secrets.token_hex(4)}.npz"
    try:
        with _storage():
            return default_storage.save(name, ContentFile(data))
    except BaseException:
        delete_unused([name])  # it may have been cut short
        raise


def _storage() -> AbstractContextManager[None]:
    """Times what the storage does, and turns its errors into StorageError, but for a file that is not there."""
    return storages.asked(_failure)


def _failure(error: Exception) -> StorageError:
    return StorageError(*error.args) if isinstance(error, OSError) else StorageError(f"the storage answered: {error}")
