"""Counts of requests for Prometheus: those of all machines together, as `state` has them when asked."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from retry import hits
from retry.errors import StoreUnavailable


class RequestsCollector(Collector):
    """Asks `state` for each scrape. Gives nothing when it does not answer: other figures are not held up."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        try:
            totals = hits.totals()
        except StoreUnavailable:
            return
        text = "Requests by what they asked for and how the front answered"
        family = CounterMetricFamily("tarry_requests", text, labels=["kind", "group", "answer"])
        for one in totals:
            family.add_metric([one.kind, one.group, one.answer], one.number)
        if totals:
            yield family


registry = CollectorRegistry()
registry.register(RequestsCollector())
