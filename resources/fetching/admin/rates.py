"""How often a domain was asked, and how often it refused, over time: counted in the database."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, ExpressionWrapper, Func, IntegerField, Q
from django.db.models.sql.compiler import SQLCompiler

from ..keeping.models import FetchTiming
from ..outcomes import Failure
from .charting import Tally


class Epoch(Func):
    """Whole seconds since 1970 of a moment, in SQLite and in PostgreSQL."""

    output_field = IntegerField()

    def as_sqlite(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        # A template twice: here, and for the parameters. Fractions are cut off: SQLite rounds them up.
        return self.as_sql(
            compiler, connection, template="CAST(strftime('%%%%s', substr(%(expressions)s, 1, 19)) AS INTEGER)"
        )

    def as_postgresql(self, compiler: SQLCompiler, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="CAST(FLOOR(EXTRACT(EPOCH FROM %(expressions)s)) AS BIGINT)")


def tallies(scopes: Sequence[str], since: datetime, until: datetime, step: timedelta) -> list[Tally]:
    """Requests and refusals of a domain, by all these names of it, in each step, the first beginning at `since`."""
    seconds, begin = int(step.total_seconds()), int(since.timestamp())
    number = ExpressionWrapper((Epoch("started_at") - begin) / seconds, output_field=IntegerField())
    found = (
        FetchTiming.objects.filter(scope__in=scopes, started_at__gte=since, started_at__lt=until)
        .order_by()
        .values(number=number)
        .annotate(requests=Count("*"), refused=Count("outcome", filter=Q(outcome=Failure.THROTTLED.value)))
        .values_list("number", "requests", "refused")
    )
    counts = {number: (requests, refused) for number, requests, refused in found}
    return [Tally(since + index * step, *counts.get(index, (0, 0))) for index in range(int((until - since) / step))]
