"""The state of a running site, for tests: its health, its metrics, its logs."""

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

PATIENT_REDIS_SECONDS = "1"
"""Seconds, the most that there may be: a busy machine is no outage."""


class Site:
    """A site at an address, with its data in a directory. Neither starts nor ends it."""

    base_url: str
    data: Path
    output: Path
    metrics_token: str = ""
    """The site's METRICS_TOKEN, where it is asked from another machine."""

    def health(self) -> tuple[int, Any]:
        """The status and the JSON of /healthz; 0 without an answer."""
        try:
            with urllib.request.urlopen(f"{self.base_url}/healthz", timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(errors="replace")
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        asking = urllib.request.Request(f"{self.base_url}/metrics")
        if self.metrics_token:
            asking.add_header("Authorization", f"Bearer {self.metrics_token}")
        with urllib.request.urlopen(asking, timeout=20) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    @property
    def secret_key(self) -> str:
        return (self.data / "secret_key").read_text().strip()

    def logs(self, lines: int = 30) -> str:
        """The ends of all logs."""
        files = [self.output, *sorted((self.data / "logs").glob("*.log"))]
        return "\n".join(f"--- {path.name}\n{_tail(path, lines)}" for path in files if path.exists())


def environment_of(data: Path, runtime: Path, port: int) -> dict[str, str]:
    """The environment of a site of tests."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "DATABASE_URL") if name in os.environ}
    return {
        **kept,
        "DATA_DIR": str(data),
        "RUNTIME_DIR": str(runtime),
        "PORT": str(port),
        "DEMO": "0",
        "FETCHERS": "1",  # tests that kill or freeze the fetcher mean all of them
        "FETCH_ALLOW_PRIVATE": "127.0.0.0/8",
        "FEEDS_SCAN_SECONDS": "1",
        "FEEDS_PUSH": "1",  # though no other server can reach this address
        "FEEDS_PUSH_COOL_SECONDS": "0",
        "RETRY_REDIS_TIMEOUT": PATIENT_REDIS_SECONDS,
        "API_CALLS_PER_MINUTE": "0",  # calls that are turned away unread show nothing
        "DJANGO_SETTINGS_MODULE": "tests.flows.settings",
        "PYTHONUNBUFFERED": "1",
    }


def _tail(path: Path, lines: int) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
