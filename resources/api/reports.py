"""`POST /api/resources`, `GET /api/batches/<id>`: reports URLs, and describes the batches of reported lists."""

import json
import logging
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpRequest, HttpResponse
from ninja import Header, Query, Schema
from pydantic import Field

from retry import deferral

from .. import problems
from ..disk import room
from ..mirror.ingest import wanted_urls
from ..mirror.models import Batch, BatchItem, DedupeStep
from ..mirror.reports import batches, report, webhooks
from ..mirror.reports.batches import SentList
from ..mirror.reports.report import DifferentReportError, ReportError, ReportResult, UnmadeReportError
from ..problems import Problem
from ..tokens import auth
from . import bodies
from .files import router

MAX_ITEMS_PER_PAGE = 1000

_log = logging.getLogger("tarry.api")

_REPORT_EXAMPLE = {
    "urls": bodies.EXAMPLE_URLS,
    "referer": "https://shop.example/",
    "webhook": "https://shop.example/told",
}


class UrlReported(Schema):
    """The decision on one URL."""

    url: str
    status: Literal["known", "accepted", "failed", "refused"] = Field(
        description="known: it is stored. accepted: it is fetched. failed: it could not be fetched before. "
        "refused: it is not fetched."
    )
    digest: str | None = Field(description="Of the stored file: `/resources/<digest>`.")
    reason: str | None = Field(description="Why it was refused or has failed.")
    retry_at: datetime | None = Field(
        description="Of a failed URL: a report or request from then on has it tried again. Null: none does."
    )


class BatchReported(Schema):
    """The list, and each of its URLs in their order."""

    batch: UUID
    is_new: bool = Field(description="False: the same list was sent before, within a day, and is not started again.")
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
    step: str | None = Field(description="The dedupe step that settled it; null while it is open.")
    digest: str | None
    reason: str | None
    retry_at: datetime | None = Field(
        description="Of a failed URL: a report or request from then on has it tried again. Null: none does."
    )


class BatchDescribed(Schema):
    """The progress of a list."""

    batch: UUID
    created_at: datetime
    finished_at: datetime | None
    total: int
    settled: int
    steps: dict[str, int] = Field(description="How many URLs each step has settled.")
    webhook: str | None
    webhook_stands: str | None = Field(description="The state of the webhook, in words.")
    items: list[ItemDescribed]
    next: str | None = Field(description="The address of the next page of items.")


class WebhookSecret(Schema):
    secret: str = Field(description="The key of the HMAC, as it stands here.")
    header: str


@router.post(
    "/resources",
    response={200: BatchReported, 202: BatchReported},
    summary="Report URLs",
    openapi_extra={
        **bodies.describe_list_body(bodies.ToMirror, _REPORT_EXAMPLE),
        **problems.describe_problems(400, 401, 403, 413, 415, 422, 429, 503),
    },
)
def report_resources(
    request: HttpRequest,
    idempotency_key: Annotated[
        str | None,
        Header(alias="Idempotency-Key", description="The same key within a day is the same list.", max_length=200),
    ] = None,
) -> HttpResponse:
    """Reports URLs: unknown ones are fetched and stored.

    202, with the address of the list in `Location`, or 200 when nothing is left to do.
    Sending the same again within a day is answered with the same list, as it stands by then.
    """
    token = auth.require_mirroring(request)
    if room.is_full():
        raise Problem(503, problems.NO_ROOM, problems.NO_ROOM_SECONDS)
    listed = bodies.read_url_list(request, token, bodies.ToMirror)
    sent = SentList(listed.urls, token.name, listed.referer, listed.webhook, token, idempotency_key or "")
    try:
        reported = report.report_urls(sent, datetime.now(UTC))
    except DifferentReportError as error:
        raise Problem(422, str(error)) from error
    except UnmadeReportError as error:
        raise Problem(503, str(error)) from error
    except ReportError as error:
        raise Problem(422, f"{error} No URL was accepted.") from error
    answer = _reported_json(reported)
    _log.info("reported", extra={"token": token.name, "batch": answer["batch"], "urls": answer["total"]})
    response = HttpResponse(
        json.dumps(answer, cls=DjangoJSONEncoder),  # not by ninja, which would look at each of ten thousand once more
        content_type="application/json; charset=utf-8",
        status=200 if answer["finished"] else 202,
    )
    response["Location"] = f"{deferral.public_url(request)}/api/batches/{answer['batch']}"
    return response


@router.get(
    "/batches/{uuid:batch_id}",
    response=BatchDescribed,
    summary="Describe a list of URLs",
    openapi_extra=problems.describe_problems(401, 403, 404, 422, 429, 503),
)
def describe_batch(
    request: HttpRequest,
    batch_id: UUID,
    after: Annotated[int, Query(ge=-1, le=10**9, description="Items behind this position.")] = -1,
    limit: Annotated[int, Query(ge=0, le=MAX_ITEMS_PER_PAGE)] = 100,
    step: Annotated[
        Literal["", "open", "known", "redirect", "validators", "unchanged", "content", "new", "failed", "refused"],
        Query(description="Items of this step alone."),
    ] = "",
) -> BatchDescribed:
    """The progress of a list by step, with its items page by page. Lists of other tokens are not found."""
    token = auth.require_mirroring(request)
    batch = Batch.objects.filter(pk=batch_id, token=token).first()
    if batch is None:
        raise Problem(404, "This token sent no such list, or the list was finished long ago.")
    items = BatchItem.objects.filter(batch=batch, position__gt=after).order_by("position")
    if step:
        items = items.filter(step="" if step == "open" else step)
    shown = list(items[: limit + 1])
    page = f"{deferral.public_url(request)}/api/batches/{batch.pk}"
    query = f"limit={limit}{f'&step={step}' if step else ''}"
    more = f"{page}?after={shown[limit - 1].position}&{query}" if limit and len(shown) > limit else None
    return _describe_progress(batch, shown[:limit], more)


@router.get(
    "/webhook-secret",
    response=WebhookSecret,
    summary="Show the secret of webhooks",
    openapi_extra=problems.describe_problems(401, 403, 429, 503),
)
def show_webhook_secret(request: HttpRequest) -> WebhookSecret:
    """The secret that signs the calls of this token's webhooks."""
    token = auth.require_mirroring(request)
    return WebhookSecret(secret=webhooks.webhook_secrets(token.digest)[0], header=webhooks.SIGNATURE_HEADER)


def _reported_json(reported: ReportResult) -> dict[str, Any]:
    statuses = [one.status for one in reported.decisions]
    return {
        "batch": str(reported.batch.pk),
        "is_new": reported.is_new,
        "finished": reported.batch.finished_at is not None,
        "total": len(statuses),
        **{status: statuses.count(status) for status in ("known", "accepted", "failed", "refused")},
        "urls": [
            {
                "url": one.url,
                "status": one.status,
                "digest": one.blob_digest or None,
                "reason": one.detail or None,
                "retry_at": one.retry_at,
            }
            for one in reported.decisions
        ],
    }


def _describe_progress(batch: Batch, items: list[BatchItem], more: str | None) -> BatchDescribed:
    steps = batches.count_settled_items(batch.pk)
    failed = {item.url_digest for item in items if item.step == DedupeStep.FAILED}
    retry_times = wanted_urls.find_retry_times(failed)
    return bodies.describe(
        batch,
        BatchDescribed,
        batch=batch.pk,
        settled=sum(steps.values()),
        steps=steps,
        webhook=batch.webhook or None,
        webhook_stands=batches.describe_webhook(batch, datetime.now(UTC)) or None,
        items=[_describe_item(item, retry_times.get(item.url_digest)) for item in items],
        next=more,
    )


def _describe_item(item: BatchItem, retry_at: datetime | None) -> ItemDescribed:
    named = {"step": item.step or None, "digest": item.blob_digest or None, "reason": item.detail or None}
    retried = {"retry_at": retry_at if item.step == DedupeStep.FAILED else None}
    return bodies.describe(item, ItemDescribed, **named, **retried)
