"""Lists of URLs, reported in tests."""

from typing import Any

from resources.mirroring.knowing.models import Batch, BatchItem
from resources.mirroring.reporting import reports
from resources.mirroring.reporting.batches import Sent
from resources.mirroring.reporting.reports import Reported
from tests.resources.mirroring.rows import NOW, url


def sent(*names: object, **fields: Any) -> Sent:
    return Sent([url(name) for name in names], "tests", **fields)


def report(*names: object, **fields: Any) -> Reported:
    return reports.report(sent(*names, **fields), NOW)


def steps(batch: Batch) -> list[str]:
    return list(BatchItem.objects.filter(batch=batch).order_by("position").values_list("step", flat=True))
