"""`/api/resources/<digest>`, `/api/resources?url=…`, `/api/signed-urls`: what is known of mirrored files."""

import logging
from datetime import datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Path, Query, Schema
from pydantic import Field

from resources.mirroring.canonical.signatures import without_secrets
from resources.mirroring.canonical.urls import canonical, known_as, surest
from resources.mirroring.errors import StorageError, UrlError
from resources.mirroring.knowing import rules
from resources.mirroring.knowing.models import Blob, Resource, State
from resources.mirroring.serving import addresses
from resources.mirroring.storing import taking_down
from resources.mirroring.writing import telling
from retry import deferring

from . import lists, problems, tokens
from .problems import Problem
from .routing import router

MOST_URLS_SHOWN = 100
NO_SECRETS = "Without user and password, and without a query that holds a signature."
Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the file, in lower-case hex.")]

_log = logging.getLogger("tarry.api")


class FileUrl(Schema):
    url: str = Field(description=NO_SECRETS)
    fetched_at: datetime | None
    step: str = Field(description="What settled it.")


class FileDescribed(Schema):
    """A stored file."""

    digest: str
    address: str | None = Field(description="Where it is served; null when it was taken down.")
    size: int
    media_type: str
    width: int | None
    height: int | None
    stored_at: datetime
    uploaded_at: datetime | None = Field(description="When it reached the storage that all machines share.")
    accessed_at: datetime
    pinned: bool
    taken_down_at: datetime | None
    urls: list[FileUrl] = Field(description=f"Up to {MOST_URLS_SHOWN}, those fetched last.")


class UrlDescribed(Schema):
    """How one URL stands."""

    url: str = Field(description=f"As it was reported first. It is this that is fetched. {NO_SECRETS}")
    canonical: str = Field(description="What tells it from other URLs.")
    url_digest: str
    state: str
    step: str | None
    digest: str | None
    address: str | None = Field(description="Where its file is served; null when there is none, or it was taken down.")
    moved_to: str | None
    wanted_at: datetime
    due_at: datetime | None = Field(description="When it is fetched, or tried again.")
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
    auth=tokens.Token(),
    response=FileDescribed,
    operation_id="describe_file",
    summary="Describe a file",
    openapi_extra=problems.described(401, 403, 404, 422, 429, 503),
)
def describe_file(request: HttpRequest, digest: Digest) -> FileDescribed:
    """What is known of a stored file, and the URLs that gave it."""
    tokens.require_mirroring(request)
    blob = Blob.objects.filter(pk=digest).first()
    if blob is None:
        raise Problem(404, "There is no such file.")
    rows = Resource.objects.filter(blob_digest=digest).order_by("-fetched_at")[:MOST_URLS_SHOWN]
    return FileDescribed(
        digest=digest,
        address=None if blob.taken_down_at else _address(request, digest),
        size=blob.size,
        media_type=blob.media_type,
        width=blob.width,
        height=blob.height,
        stored_at=blob.stored_at,
        uploaded_at=blob.uploaded_at,
        accessed_at=blob.accessed_at,
        pinned=blob.pinned,
        taken_down_at=blob.taken_down_at,
        urls=[FileUrl(url=without_secrets(row.url), fetched_at=row.fetched_at, step=row.step) for row in rows],
    )


@router.delete(
    "/resources/{digest}",
    auth=tokens.Token(),
    response=TakenDown,
    operation_id="take_down_file",
    summary="Take a file down",
    openapi_extra=problems.described(401, 403, 404, 422, 429, 503),
)
def take_down_file(request: HttpRequest, digest: Digest) -> TakenDown:
    """Takes a file down: it is served no more, and neither its URLs nor the same bytes are stored again."""
    token = tokens.require_taking_down(request)
    try:
        is_there = taking_down.take_down(digest)
    except StorageError as error:
        raise Problem(503, f"{error} Send this again.") from error
    if not is_there:
        raise Problem(404, "There is no such file.")
    _log.info("taken down", extra={"token": token.name, "digest": digest})
    return TakenDown(digest=digest, detail="It is served no more, and will not be stored again.")


@router.get(
    "/resources",
    auth=tokens.Token(),
    response=UrlDescribed,
    operation_id="describe_url",
    summary="Describe a URL",
    openapi_extra=problems.described(401, 403, 404, 422, 429, 503),
)
def describe_url(
    request: HttpRequest, url: Annotated[str, Query(max_length=2000, examples=lists.EXAMPLE[:1])]
) -> UrlDescribed:
    """How one URL stands, by whatever of its spellings."""
    tokens.require_mirroring(request)
    try:
        in_force = rules.current_rules()
        found, digests = canonical(url, in_force), known_as(url, in_force)
    except (UrlError, UnicodeEncodeError) as error:
        raise Problem(422, f"url: {error}") from error
    row = surest(digests, Resource.objects.in_bulk(digests), lambda one: one.state == State.STORED)
    if row is None:
        raise Problem(404, "This URL was never reported.")
    return UrlDescribed(
        url=without_secrets(row.url),
        canonical=found.text,
        url_digest=row.pk,
        state=row.state,
        step=row.step or None,
        digest=row.blob_digest or None,
        address=_address(request, row.blob_digest) if _is_served(row.blob_digest) else None,
        moved_to=without_secrets(row.moved_to) or None,
        wanted_at=row.wanted_at,
        due_at=row.due_at,
        fetched_at=row.fetched_at,
        attempts=row.attempts,
        failure=row.failure or None,
        status=row.status,
        reason=telling.told(row.failure, row.detail) or None,
    )


@router.post(
    "/signed-urls",
    auth=tokens.Token(),
    response=UrlsSigned,
    operation_id="sign_urls",
    summary="Sign URLs",
    openapi_extra={
        **lists.described(lists.ToSign, {"urls": lists.EXAMPLE}),
        **problems.described(400, 401, 403, 413, 415, 422, 429, 503),
    },
)
def sign_urls(request: HttpRequest) -> UrlsSigned:
    """Addresses on this site that answer with the files of these URLs, fetched when somebody asks for them."""
    token = tokens.require_mirroring(request)
    site = deferring.public_url(request)
    return UrlsSigned(urls=[_signed(url, site) for url in lists.read(request, token, lists.ToSign).urls])


def _signed(url: str, site: str) -> UrlSigned:
    try:
        canonical(url, rules.current_rules())
        return UrlSigned(url=url, address=f"{site}{addresses.sign_url(url)}", reason=None)
    except UnicodeEncodeError:
        return UrlSigned(url=url.encode(errors="replace").decode(), address=None, reason="The URL is not text.")
    except UrlError as error:
        return UrlSigned(url=url, address=None, reason=str(error))


def _is_served(digest: str) -> bool:
    return Blob.objects.filter(pk=digest, taken_down_at=None).exists()


def _address(request: HttpRequest, digest: str) -> str:
    return f"{deferring.public_url(request)}/resources/{digest}"
