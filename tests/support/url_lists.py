"""Lists of URLs, reported in tests."""

from typing import Any

from resources.mirror.models import Batch, BatchItem
from resources.mirror.reports import report as reports_report
from resources.mirror.reports.batches import SentList
from resources.mirror.reports.report import ReportResult

from .mirror_rows import NOW, url


def sent(*names: object, **fields: Any) -> SentList:
    return SentList([url(name) for name in names], "tests", **fields)


def report(*names: object, **fields: Any) -> ReportResult:
    return reports_report.report_urls(sent(*names, **fields), NOW)


def steps(batch: Batch) -> list[str]:
    return list(BatchItem.objects.filter(batch=batch).order_by("position").values_list("step", flat=True))
