"""The dashboard and the alert rules: their figures are those of `/metrics`, and the rules fire when they should."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from project.paths import BASE_DIR
from resources.fetch.worker import attempt  # noqa: F401  # a fetcher's figures
from retry import metrics, popularity
from retry.conf import partition_root
from tests.conftest import RedisServers
from tests.support.documentation import code_block
from tests.support.machines import note, process

MONITORING = BASE_DIR / "deploy" / "monitoring"
RULES, DASHBOARD = MONITORING / "tarry-alerts.yml", json.loads((MONITORING / "tarry-dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel["targets"]]

_FIGURE = re.compile(r"\b(tarry_\w+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)=~?\"")
_GROUPING = re.compile(r"(?:by|on) \(([^)]*)\)")
TARGET = {"job": "tarry", "instance": "a.example.org:8000"}
"""The labels that Prometheus gives to all figures of a target, in place of the target's own."""
_SUFFIXES = ("_bucket", "_count", "_sum", "_total")

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Prometheus) is not installed")


def promtool(*arguments: object, cwd: Path | None = None) -> str:
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def exported(redis_servers: RedisServers, client: Client) -> dict[str, set[str]]:
    """The names of the figures of `/metrics`, with the labels of those that have values in a site at rest."""
    state: redis.Redis = redis_servers.state.client
    for name, digest in (("a", "1"), ("b", "2")):
        note(state, name, process("work", "work", "work"), digests={"PUBLIC_URL": [digest]})
    state.hset(popularity.hits_key(), "tiles roads HIT", 1)
    state.set(f"{partition_root('retry', 0)}:duration:paint.now", 500)
    metrics.count_answer("main", "serve")
    text = client.get("/metrics", REMOTE_ADDR="127.0.0.1").content.decode()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for name in (family.name, *(f"{family.name}{suffix}" for suffix in _SUFFIXES)):
            found[name] = set()
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_figure_of_the_dashboard_is_exported(exported: dict[str, set[str]], expression: str) -> None:
    assert unknown_figures(expression, exported) == []


@pytest.mark.django_db(transaction=True)
def test_each_figure_and_label_of_the_rules_is_exported(exported: dict[str, set[str]]) -> None:
    text = RULES.read_text()
    assert len(_FIGURE.findall(text)) > 15
    assert unknown_figures(text, exported) == []
    assert unknown_figures('tarry_machine_up{host="a"} + tarry_nothing', exported) == [
        *("tarry_nothing", "tarry_machine_up: host"),
    ]


def unknown_figures(text: str, exported: dict[str, set[str]]) -> list[str]:
    used = _FIGURE.findall(text)
    names = [name for name, _ in used if name not in exported]
    labels = [
        f"{name}: {label}"
        for name, selected in used
        for label in _LABEL.findall(selected)
        if exported.get(name) and label not in exported[name]
    ]
    return names + labels


@pytest.mark.django_db(transaction=True)
def test_no_figure_has_a_label_that_prometheus_sets(exported: dict[str, set[str]]) -> None:
    assert "server" in exported["tarry_answers_total"]
    assert [name for name, labels in exported.items() if labels & set(TARGET)] == []


@pytest.mark.django_db(transaction=True)
def test_the_dashboard_groups_by_labels_that_there_are(exported: dict[str, set[str]]) -> None:
    checked = 0
    for expression in EXPRESSIONS:
        [name, *_] = [name for name, _ in _FIGURE.findall(expression)]
        if labels := exported[name]:
            wanted = {label.strip() for found in _GROUPING.findall(expression) for label in found.split(",")}
            assert wanted <= labels | {"le"}, expression
            checked += 1
    assert checked > 10


def test_the_dashboard_has_panels_with_names_and_places_of_their_own_and_one_data_source() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in PANELS}) == len(PANELS) > 20
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23
    [variable] = DASHBOARD["templating"]["list"]
    assert {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]} == {
        f"${{{variable['name']}}}"
    }


@needs_promtool
def test_promtool_takes_the_rules_the_example_and_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    assert "rules found" in promtool("check", "rules", RULES)
    for file in MONITORING.glob("*.yml"):
        shutil.copy(file, tmp_path)
    (tmp_path / "metrics_token").touch()
    program, *arguments = shlex.split(code_block("docs/operations.md", "", "promtool check"))
    assert program == "promtool"
    promtool(*arguments, cwd=tmp_path)
    recorded = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(EXPRESSIONS)]
    file = tmp_path / "expressions.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", file)


MACHINE = '{machine="a"}'
SERIES = {
    "TarryUnreachable": ({"up": "0x20"}, {"up": "1x20"}),
    "TarryNotWell": ({'tarry_part_up{part="p"}': "0x20"}, {'tarry_part_up{part="p"}': "1x20"}),
    "TarryMachineOverdue": ({f"tarry_machine_overdue{MACHINE}": "1x20"}, {f"tarry_machine_overdue{MACHINE}": "0x20"}),
    "TarryClockSkew": (
        {f"tarry_machine_clock_skew_seconds{MACHINE}": "-3x20"},
        {f"tarry_machine_clock_skew_seconds{MACHINE}": "-1x20"},
    ),
    "TarryDiskFull": (
        {f"tarry_machine_disk_free_bytes{MACHINE}": "9x20", f"tarry_machine_disk_bytes{MACHINE}": "100x20"},
        {f"tarry_machine_disk_free_bytes{MACHINE}": "0x20", f"tarry_machine_disk_bytes{MACHINE}": "0x20"},
    ),
    "TarryDiskBound": (
        {f"tarry_machine_disk_trouble{MACHINE}": "1x20"},
        {f"tarry_machine_disk_trouble{MACHINE}": "0x20"},
    ),
    "TarryProcessesMissing": (
        {
            'tarry_machine_processes{machine="a", role="paint", state="wanted"}': "3x20",
            'tarry_machine_processes{machine="a", role="paint", state="running"}': "2x20",
            'tarry_machine_up{machine="a"}': "1x20",
        },
        {
            'tarry_machine_processes{machine="a", role="paint", state="wanted"}': "3x20",
            'tarry_machine_processes{machine="a", role="paint", state="running"}': "0x20",
            'tarry_machine_up{machine="a"}': "0x20",
        },
    ),
    "TarrySettingsDiffer": (
        {'tarry_machine_setting_differs{machine="a", setting="S", other="b"}': "1x30"},
        {'tarry_machine_setting_differs{machine="a", setting="S", other="b"}': "1x5 _x25"},
    ),
    "TarryLaneGrowing": (
        {'tarry_lane_waiting{lane="l"}': "300+10x30", 'tarry_lane_limit{lane="l"}': "500x30"},
        {'tarry_lane_waiting{lane="l"}': "500-5x30", 'tarry_lane_limit{lane="l"}': "500x30"},
    ),
    "TarryQueueWait": (
        {'tarry_lane_wait_seconds{lane="paint.now"}': "30x30"},
        {'tarry_lane_wait_seconds{lane="paint.warm"}': "3000x30"},
    ),
    "TarryWaitsInVain": (
        {
            'tarry_answers_total{server="retry", answer="ready"}': "0+10x30",
            'tarry_answers_total{server="retry", answer="time_up"}': "0+5x30",
        },
        {
            'tarry_answers_total{server="retry", answer="ready"}': "0+10x30",
            'tarry_answers_total{server="retry", answer="time_up"}': "0+1x30",
        },
    ),
    "TarryFailureRate": (
        {
            'tarry_preparations_total{task="t", outcome="stored"}': "0+10x30",
            'tarry_preparations_total{task="t", outcome="failed"}': "0+5x30",
        },
        {
            'tarry_preparations_total{task="t", outcome="stored"}': "0+10x30",
            'tarry_preparations_total{task="t", outcome="failed"}': "0+1x30",
        },
    ),
    "TarryRefusals": (
        {
            'tarry_answers_total{server="main", answer="serve"}': "0+10x30",
            'tarry_answers_total{server="main", answer="refuse"}': "0+5x30",
        },
        {
            'tarry_answers_total{server="main", answer="serve"}': "0+100x30",
            'tarry_answers_total{server="main", answer="refuse"}': "0+1x30",
        },
    ),
    "TarryStateMemory": (
        {'tarry_state_memory_bytes{node=""}': "90x20", 'tarry_state_memory_max_bytes{node=""}': "100x20"},
        {'tarry_state_memory_bytes{node=""}': "60x20", 'tarry_state_memory_max_bytes{node=""}': "100x20"},
    ),
}
"""By alert: series that let it fire, and series that do not. Their names are those of `/metrics`."""


def as_scraped(series: str) -> str:
    """The series as Prometheus keeps it: with the labels of the target, and those of the same name renamed."""
    name, _, written = series.partition("{")
    labels = dict(re.findall(r'(\w+)="([^"]*)"', written))
    kept = {f"exported_{label}" if label in TARGET else label: value for label, value in labels.items()} | TARGET
    return f"{name}{{{', '.join(f'{label}={json.dumps(value)}' for label, value in kept.items())}}}"


def test_a_label_of_a_target_is_renamed() -> None:
    renamed = 'up{exported_instance="main", job="tarry", instance="a.example.org:8000"}'
    assert as_scraped('up{instance="main"}') == renamed


def test_the_example_asks_fronts_as_they_are_deployed() -> None:
    [job] = yaml.safe_load((MONITORING / "prometheus.yml").read_text())["scrape_configs"]
    assert job["scheme"] == "http"  # a balancer adds TLS; each front speaks plain HTTP
    targets = [target for one in job["static_configs"] for target in one["targets"]]
    assert {target.partition(":")[2] for target in targets} == {"8000", "9100"}  # fronts; machines without one


def test_pods_are_asked_at_the_ports_that_they_name() -> None:
    [job] = yaml.safe_load((MONITORING / "kubernetes.yml").read_text())["scrape_configs"]
    parts, ports = (one["regex"].split("|") for one in job["relabel_configs"] if one.get("action") == "keep")
    texts = {name: (MONITORING.parent / "kubernetes" / f"{name}.yaml").read_text() for name in parts}
    named = {name: re.findall(r"name: (\w+), containerPort", text) for name, text in texts.items()}
    assert named == {"web": [ports[0]], **{name: [ports[1]] for name in ("paint", "fetch", "work")}}
    assert all(f"app.kubernetes.io/component: {name}" in text for name, text in texts.items())


def test_each_rule_has_such_series() -> None:
    assert set(re.findall(r"alert: (\w+)", RULES.read_text())) == set(SERIES)


@needs_promtool
def test_each_rule_fires_when_it_should_and_is_silent_else(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    cases = [
        {
            "name": f"{alert}, {'on' if fires else 'off'}",
            "interval": "1m",
            "input_series": [{"series": as_scraped(name), "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)',
                    "eval_time": "19m",
                    "exp_samples": [{"labels": "{}", "value": int(fires)}],
                }
            ],
        }
        for alert, both in SERIES.items()
        for fires, series in zip((True, False), both, strict=True)
    ]
    file = tmp_path / "cases.yml"
    file.write_text(json.dumps({"rule_files": [RULES.name], "evaluation_interval": "1m", "tests": cases}))
    assert "SUCCESS" in promtool("test", "rules", file, cwd=tmp_path)
