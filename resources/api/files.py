"""`/api/resources/<digest>`, `/api/resources?url=…`, `/api/signed-urls`: describes mirrored files and signs URLs.

The router is shared with `reports`: ninja answers other methods of an address by router.
"""

import logging
from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Query, Router, Schema
from pydantic import Field

from retry import deferral

from .. import problems
from ..mirror import hosts, links, url_rules
from ..mirror.canonical.urls import candidate_digests, canonicalise_url, find_surest, strip_secrets
from ..mirror.errors import StorageError, UrlError
from ..mirror.ingest import url_outcome
from ..mirror.models import Blob, Resource, UrlState
from ..mirror.reports.classify import has_file
from ..mirror.storage import takedown
from ..problems import Problem
from ..tokens import auth
from . import bodies

router = Router(tags=["mirrored files"], auth=auth.Token())

MOST_URLS_SHOWN = 100
WITHOUT_SECRETS = "Without user and password, and without a query that holds a signature."
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, in lower-case hex.")]

_log = logging.getLogger("tarry.api")


class FileUrl(Schema):
    url: str = Field(description=WITHOUT_SECRETS)
    fetched_at: datetime | None
    step: str = Field(description="The dedupe step that settled it.")


class FileDescribed(Schema):
    """A stored file."""

    digest: str
    address: str | None = Field(description="Its address; null after a takedown.")
    size: int
    media_type: str
    width: int | None
    height: int | None
    stored_at: datetime
    uploaded_at: datetime | None = Field(description="The time of the upload to the shared storage.")
    accessed_at: datetime
    pinned: bool
    taken_down_at: datetime | None
    urls: list[FileUrl] = Field(description=f"Up to {MOST_URLS_SHOWN}, the last fetched first.")


class UrlDescribed(Schema):
    """The state of one URL."""

    url: str = Field(description=f"The URL as first reported, which is fetched. {WITHOUT_SECRETS}")
    canonical: str = Field(description="The canonical URL, its key.")
    url_digest: str
    state: str
    step: str | None
    digest: str | None
    address: str | None = Field(description="The address of its file; null without a file, or after a takedown.")
    moved_to: str | None
    wanted_at: datetime
    due_at: datetime | None = Field(description="The time of its next fetch.")
    retry_at: datetime | None = Field(
        description="Of a failed URL: a report or request from then on has it tried again. Null: none does."
    )
    recheck_at: datetime | None = Field(
        description="Of a stored URL whose host is checked for new content: a request from then on has it checked."
    )
    fetched_at: datetime | None
    attempts: int
    failure: str | None
    status: int | None
    reason: str | None


class TakenDown(Schema):
    digest: str
    detail: str


class UrlSigned(Schema):
    url: str
    address: str | None
    reason: str | None


class UrlsSigned(Schema):
    urls: list[UrlSigned]


@router.get(
    "/resources/{digest}",
    response=FileDescribed,
    summary="Describe a file",
    openapi_extra=problems.describe_problems(401, 403, 404, 422, 429, 503),
)
def describe_file(request: HttpRequest, digest: Digest) -> FileDescribed:
    """A stored file, and the URLs that gave it."""
    auth.require_mirroring(request)
    blob = Blob.objects.filter(pk=digest).first()
    if blob is None:
        raise Problem(404, "There is no such file.")
    rows = Resource.objects.filter(blob_digest=digest).order_by("-fetched_at")[:MOST_URLS_SHOWN]
    return bodies.describe(
        blob,
        FileDescribed,
        address=None if blob.taken_down_at else _file_address(request, digest),
        urls=[FileUrl(url=strip_secrets(row.url), fetched_at=row.fetched_at, step=row.step) for row in rows],
    )


@router.delete(
    "/resources/{digest}",
    response=TakenDown,
    summary="Take a file down",
    openapi_extra=problems.describe_problems(401, 403, 404, 422, 429, 503),
)
def take_down_file(request: HttpRequest, digest: Digest) -> TakenDown:
    """Takes a file down: it is no longer served, and neither its URLs nor the same bytes are stored again."""
    token = auth.require_taking_down(request)
    try:
        is_there = takedown.take_down_blob(digest)
    except StorageError as error:
        raise Problem(503, f"{error} Send this again.") from error
    if not is_there:
        raise Problem(404, "There is no such file.")
    _log.info("taken down", extra={"token": token.name, "digest": digest})
    return TakenDown(digest=digest, detail="It is no longer served, and will not be stored again.")


@router.get(
    "/resources",
    response=UrlDescribed,
    summary="Describe a URL",
    openapi_extra=problems.describe_problems(401, 403, 404, 422, 429, 503),
)
def describe_url(
    request: HttpRequest, url: Annotated[str, Query(max_length=2000, examples=bodies.EXAMPLE_URLS[:1])]
) -> UrlDescribed:
    """The state of one URL, in any of its spellings."""
    auth.require_mirroring(request)
    try:
        in_force = url_rules.current_rules()
        found, digests = canonicalise_url(url, in_force), candidate_digests(url, in_force)
    except (UrlError, UnicodeEncodeError) as error:
        raise Problem(422, f"url: {error}") from error
    row = find_surest(digests, Resource.objects.in_bulk(digests), has_file)
    if row is None:
        raise Problem(404, "This URL was never reported.")
    is_served = Blob.objects.filter(pk=row.blob_digest, taken_down_at=None).exists()
    return bodies.describe(
        row,
        UrlDescribed,
        url=strip_secrets(row.url),
        canonical=found.text,
        step=row.step or None,
        digest=row.blob_digest or None,
        address=_file_address(request, row.blob_digest) if is_served else None,
        moved_to=strip_secrets(row.moved_to) or None,
        due_at=row.due_at if row.state == UrlState.WANTED else None,
        retry_at=row.due_at if row.state == UrlState.FAILED else None,
        recheck_at=row.due_at if row.state == UrlState.STORED and hosts.is_rechecked(row.host) else None,
        failure=row.failure or None,
        reason=url_outcome.describe_failure(row.failure, row.detail) or None,
    )


@router.post(
    "/signed-urls",
    response=UrlsSigned,
    summary="Sign URLs",
    openapi_extra={
        **bodies.describe_list_body(bodies.ToSign, {"urls": bodies.EXAMPLE_URLS}),
        **problems.describe_problems(400, 401, 403, 413, 415, 422, 429, 503),
    },
)
def sign_urls(request: HttpRequest) -> UrlsSigned:
    """Addresses on this site that answer with the files of these URLs, fetched on request."""
    token = auth.require_mirroring(request)
    site = deferral.public_url(request)
    return UrlsSigned(urls=[_sign_one(url, site) for url in bodies.read_url_list(request, token, bodies.ToSign).urls])


def _sign_one(url: str, site: str) -> UrlSigned:
    try:
        canonicalise_url(url, url_rules.current_rules())
        return UrlSigned(url=url, address=f"{site}{links.sign_url(url)}", reason=None)
    except UnicodeEncodeError:
        return UrlSigned(url=url.encode(errors="replace").decode(), address=None, reason="The URL is not text.")
    except UrlError as error:
        return UrlSigned(url=url, address=None, reason=str(error))


def _file_address(request: HttpRequest, digest: str) -> str:
    return f"{deferral.public_url(request)}/resources/{digest}"
