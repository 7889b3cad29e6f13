"""STORAGE_URL: where blobs and layers' data are kept. Connects to nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def storage_from(url: str) -> dict[str, Any]:
    """The STORAGES entry for `file:///path` or `s3://key:secret@endpoint[:port]/bucket?region=…&tls=0`."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": unquote(parts.path), "base_url": None},
        }
    if parts.scheme == "s3" and parts.path.strip("/"):
        return {"BACKEND": "project.bucket.Bucket", "OPTIONS": _s3_options(parts)}
    # The URL itself may hold a secret: it is not repeated.
    raise ImproperlyConfigured("STORAGE_URL must be file:///path or s3://key:secret@endpoint/bucket")


def folder_of(storage: Mapping[str, Any]) -> Path | None:
    """The folder of a STORAGES entry; None for one that is no file system."""
    location = storage.get("OPTIONS", {}).get("location") if storage["BACKEND"].endswith("FileSystemStorage") else None
    return Path(location) if location else None


def _s3_options(parts: SplitResult) -> dict[str, Any]:
    query = dict(parse_qsl(parts.query))
    bucket, _, prefix = parts.path.strip("/").partition("/")
    scheme = "http" if query.get("tls") == "0" else "https"
    port = f":{parts.port}" if parts.port else ""
    return {
        "bucket_name": bucket,
        "location": prefix,
        "access_key": unquote(parts.username or "") or None,
        "secret_key": unquote(parts.password or "") or None,
        "endpoint_url": f"{scheme}://{parts.hostname}{port}" if parts.hostname else None,
        "region_name": query.get("region"),
        "querystring_auth": False,
        "file_overwrite": True,
    }
