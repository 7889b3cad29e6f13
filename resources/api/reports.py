"""`POST /api/resources`, `GET /api/batches/<id>`: URLs that are reported, and what becomes of them."""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Query, Schema
from pydantic import Field

from resources.mirroring.knowing.models import Batch, BatchItem
from resources.mirroring.reporting import progress, reports, signatures, webhooks
from resources.mirroring.reporting.batches import Sent
from resources.mirroring.reporting.deciding import Decision
from resources.mirroring.reporting.reports import DifferentReportError, Reported, ReportError, UnmadeReportError
from retry import deferring

from . import lists, problems, tokens
from .problems import Problem
from .routing import router

MOST_ITEMS = 1000

_log = logging.getLogger("tarry.api")

_EXAMPLE = {"urls": lists.EXAMPLE, "referer": "https://shop.example/", "webhook": "https://shop.example/told"}


class UrlReported(Schema):
    """What becomes of one URL."""

    url: str
    status: Literal["known", "accepted", "failed", "refused"] = Field(
        description="known: it is stored. accepted: it is fetched. failed: it could not be fetched before. "
        "refused: it is not fetched."
    )
    digest: str | None = Field(description="Of the stored file: `/resources/<digest>`.")
    reason: str | None = Field(description="Why it was refused or has failed.")


class BatchReported(Schema):
    """The list, and each of its URLs in their order."""

    batch: UUID
    is_new: bool = Field(description="False: the same was sent before, within a day, and is not begun again.")
    finished: bool
    total: int
    known: int
    accepted: int
    failed: int
    refused: int
    urls: list[UrlReported]


class ItemDescribed(Schema):
    position: int
    url: str
    step: str | None = Field(description="What settled it; null while it is open.")
    digest: str | None
    reason: str | None


class BatchDescribed(Schema):
    """How far a list is."""

    batch: UUID
    created_at: datetime
    finished_at: datetime | None
    total: int
    settled: int
    steps: dict[str, int] = Field(description="How many URLs each step has settled.")
    webhook: str | None
    webhook_stands: str | None = Field(description="How its call stands, in words.")
    items: list[ItemDescribed]
    next: str | None = Field(description="The address of the next page of items.")


class WebhookSecret(Schema):
    secret: str = Field(description="The key of the HMAC, as it stands here.")
    header: str


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list's items: those behind a position, of one step or all."""

    after: int
    limit: int
    step: str

    def items(self, batch: Batch) -> list[BatchItem]:
        """One more than belongs to the page, if there is one."""
        rows = BatchItem.objects.filter(batch=batch, position__gt=self.after).order_by("position")
        if self.step:
            rows = rows.filter(step="" if self.step == "open" else self.step)
        return list(rows[: self.limit + 1])


@router.post(
    "/resources",
    auth=tokens.Token(),
    response={200: BatchReported, 202: BatchReported},
    operation_id="report_resources",
    summary="Report URLs",
    openapi_extra={
        **lists.described(lists.ToMirror, _EXAMPLE),
        **problems.described(400, 401, 403, 413, 415, 422, 429, 503),
    },
)
def report_resources(
    request: HttpRequest,
    idempotency_key: Annotated[
        str | None,
        Header(alias="Idempotency-Key", description="The same key within a day is the same list.", max_length=200),
    ] = None,
) -> HttpResponse:
    """Reports URLs: those that are not known are fetched and stored.

    202, with the address of the list in `Location`, or 200 when nothing is left to do.
    Sending the same again within a day is answered with the same list, as it stands by then.
    """
    token = tokens.require_mirroring(request)
    listed = lists.read(request, token, lists.ToMirror)
    sent = Sent(listed.urls, token.name, listed.referer, listed.webhook, token, idempotency_key or "")
    try:
        reported = reports.report(sent, datetime.now(UTC))
    except DifferentReportError as error:
        raise Problem(422, str(error)) from error
    except UnmadeReportError as error:
        raise Problem(503, str(error)) from error
    except ReportError as error:
        raise Problem(422, f"{error} Nothing was taken.") from error
    answer = _reported(reported)
    _log.info("reported", extra={"token": token.name, "batch": answer["batch"], "urls": answer["total"]})
    response = HttpResponse(
        json.dumps(answer),  # not by ninja, which would look at each of ten thousand once more
        content_type="application/json; charset=utf-8",
        status=200 if answer["finished"] else 202,
    )
    response["Location"] = f"{deferring.public_url(request)}/api/batches/{answer['batch']}"
    return response


@router.get(
    "/batches/{uuid:batch_id}",
    auth=tokens.Token(),
    response=BatchDescribed,
    operation_id="describe_batch",
    summary="Describe a list of URLs",
    openapi_extra=problems.described(401, 403, 404, 422, 429, 503),
)
def describe_batch(
    request: HttpRequest,
    batch_id: UUID,
    after: Annotated[int, Query(ge=-1, le=10**9, description="Items behind this position.")] = -1,
    limit: Annotated[int, Query(ge=0, le=MOST_ITEMS)] = 100,
    step: Annotated[
        Literal["", "open", "known", "redirect", "validators", "unchanged", "content", "new", "failed", "refused"],
        Query(description="Items of this step alone."),
    ] = "",
) -> BatchDescribed:
    """How far a list is, by step, with its items page by page. Lists of other tokens are not there."""
    token = tokens.require_mirroring(request)
    batch = Batch.objects.filter(pk=batch_id, token=token).first()
    if batch is None:
        raise Problem(404, "This token has sent no such list, or it was finished long ago.")
    return _described(batch, Page(after, limit, step), deferring.public_url(request))


@router.get(
    "/webhook-secret",
    auth=tokens.Token(),
    response=WebhookSecret,
    operation_id="show_webhook_secret",
    summary="Show the secret of webhooks",
    openapi_extra=problems.described(401, 403, 429, 503),
)
def show_webhook_secret(request: HttpRequest) -> WebhookSecret:
    """The secret by which calls of this token's webhooks are signed."""
    token = tokens.require_mirroring(request)
    return WebhookSecret(secret=webhooks.secrets_of(token.digest)[0], header=signatures.HEADER)


def _reported(reported: Reported) -> dict[str, Any]:
    statuses = [one.status for one in reported.decisions]
    return {
        "batch": str(reported.batch.pk),
        "is_new": reported.is_new,
        "finished": reported.batch.finished_at is not None,
        "total": len(statuses),
        **{status: statuses.count(status) for status in ("known", "accepted", "failed", "refused")},
        "urls": list(map(_url_reported, reported.decisions)),
    }


def _url_reported(one: Decision) -> dict[str, str | None]:
    return {"url": one.url, "status": one.status, "digest": one.blob_digest or None, "reason": one.detail or None}


def _described(batch: Batch, page: Page, site: str) -> BatchDescribed:
    steps = progress.steps_of(batch.pk)
    items = page.items(batch)
    shown = items[: page.limit]
    more = len(items) > page.limit and page.limit
    query = f"after={shown[-1].position}&limit={page.limit}{f'&step={page.step}' if page.step else ''}" if more else ""
    return BatchDescribed(
        batch=batch.pk,
        created_at=batch.created_at,
        finished_at=batch.finished_at,
        total=batch.total,
        settled=sum(steps.values()),
        steps=steps,
        webhook=batch.webhook or None,
        webhook_stands=progress.webhook_stands(batch, datetime.now(UTC)) or None,
        items=list(_items(shown)),
        next=f"{site}/api/batches/{batch.pk}?{query}" if more else None,
    )


def _items(items: list[BatchItem]) -> Iterator[ItemDescribed]:
    for item in items:
        yield ItemDescribed(
            position=item.position,
            url=item.url,
            step=item.step or None,
            digest=item.blob_digest or None,
            reason=item.detail or None,
        )
