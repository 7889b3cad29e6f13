"""The tally of metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from retry.metrics import MetricTally

DURATIONS = (0.005, 0.01, 0.02, 7, 100)


def durations(registry: CollectorRegistry, name: str) -> Histogram:
    return Histogram(name, "Durations", ["kind"], buckets=(0.01, 1, 10), registry=registry)


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, str], float]:
    found = (one for metric in registry.collect() for one in metric.samples if not one.name.endswith("_created"))
    return {(one.name.removeprefix(name), one.labels.get("le", "")): one.value for one in found}


def test_a_tally_writes_the_sums_of_its_changes_once() -> None:
    registry = CollectorRegistry()
    counter, gauge = Counter("files", "Files", registry=registry), Gauge("waiting", "Clients", registry=registry)
    tally = MetricTally()
    for _ in range(3):
        tally.add(counter)
        tally.add(gauge, 2)
    tally.add(gauge, -1)
    assert registry.get_sample_value("files_total") == 0
    tally.write()
    tally.write()
    assert (registry.get_sample_value("files_total"), registry.get_sample_value("waiting")) == (3, 5)


def test_a_tally_of_durations_gives_the_histogram_that_each_of_them_gives() -> None:
    direct, tallied = CollectorRegistry(), CollectorRegistry()
    tally, whole = MetricTally(), durations(tallied, "tallied").labels("page")
    for seconds in DURATIONS:
        tally.observe(whole, seconds)
    tally.write()
    one_by_one = durations(direct, "direct").labels("page")
    for seconds in DURATIONS:
        one_by_one.observe(seconds)
    assert samples(tallied, "tallied") == samples(direct, "direct")
    assert samples(tallied, "tallied")["_count", ""] == len(DURATIONS)
