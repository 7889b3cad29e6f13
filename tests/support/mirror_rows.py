"""Rows of mirrored files, and reported lists of URLs, as tests want them."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.models import Batch, BatchItem, Blob, DedupeStep, Resource, UrlState
from resources.mirror.reports import report as reports_report
from resources.mirror.reports.batches import SentList
from resources.mirror.reports.report import ReportResult

from .url_outcomes import NONE_LEARNT

NOW = datetime(2026, 11, 21, 10, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def url(name: object) -> str:
    return f"https://images.example.org/{name}.jpg"


def digest_of(address: str) -> str:
    """The name of a URL."""
    return canonicalise_url(address, NONE_LEARNT).digest


def content(name: object) -> str:
    """The digest of some content."""
    return sha256(str(name).encode()).hexdigest()


def blob(name: object, **fields: Any) -> Blob:
    given = {"size": 1234, "media_type": "image/jpeg", "width": 640, "height": 480, "holder": "here", **fields}
    return Blob.objects.create(
        digest=content(name), name=f"blobs/{content(name)}", stored_at=NOW, accessed_at=NOW, **given
    )


def resource(name: object, **fields: Any) -> Resource:
    """A row of `url(name)`, wanted if nothing else is said."""
    address = fields.pop("url", url(name))
    given = {"host": "images.example.org", "wanted_at": NOW, "due_at": NOW, **fields}
    return Resource.objects.create(url_digest=digest_of(address), url=address, **given)


def store(name: object, *, step: DedupeStep = DedupeStep.NEW) -> str:
    """The URL is stored now; the digest of its content. As the writer leaves the row."""
    if not Blob.objects.filter(pk=content(name)).exists():
        blob(name)
    Resource.objects.filter(pk=digest_of(url(name))).update(
        state=UrlState.STORED, step=step, blob_digest=content(name), fetched_at=NOW, due_at=None
    )
    return content(name)


def stored_resource(name: object) -> None:
    """A row of `url(name)` with its file."""
    resource(name)
    store(name)


def fail(name: object, detail: str = "404 Not Found") -> None:
    Resource.objects.filter(pk=digest_of(url(name))).update(
        state=UrlState.FAILED, step=DedupeStep.FAILED, failure="permanent", detail=detail, fetched_at=NOW, due_at=None
    )


def sent(*names: object, **fields: Any) -> SentList:
    return SentList([url(name) for name in names], "tests", **fields)


def report(*names: object, **fields: Any) -> ReportResult:
    return reports_report.report_urls(sent(*names, **fields), NOW)


def steps(batch: Batch) -> list[str]:
    return list(BatchItem.objects.filter(batch=batch).order_by("position").values_list("step", flat=True))
