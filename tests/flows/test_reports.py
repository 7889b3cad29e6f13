"""Lists of URLs on the whole site: reported, fetched once, told of at their end; from the API and from files."""

import hashlib
import hmac
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from standardwebhooks import Webhook

from resources.mirror.reports.bulk import URLS_PER_LIST as MOST_LINES

from ..support import report_server
from ..support.report_server import ReportingServer
from ..support.stack import ROOT, Stack, eventually


@pytest.fixture(scope="module")
def origin() -> Iterator[ReportingServer]:
    with report_server.running() as server:
        yield server


@pytest.fixture(scope="module")
def token(stack: Stack) -> str:
    return stack.manage("create_token", "mirror", "--mirror").strip()


def ask(stack: Stack, token: str, method: str, path: str, **given: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return requests.request(method, f"{stack.base_url}/api/{path}", headers=headers, timeout=30, **given)


def test_a_list_is_fetched_once_and_its_webhook_is_called_signed(
    stack: Stack, origin: ReportingServer, token: str, name: str
) -> None:
    origin.troubles = [500]
    urls = [
        f"{origin.url}/{name}",
        f"{origin.url}/{name}?utm_source=x",
        f"{origin.url}/missing/{name}",
        "ftp://x.example/",
    ]
    body = {"urls": urls, "referer": "https://example.org/", "webhook": f"{origin.url}/told?by={name}"}
    answer = ask(stack, token, "POST", "resources", json=body)
    assert answer.status_code == 202, answer.text
    told = answer.json()
    assert [one["status"] for one in told["urls"]] == ["accepted", "accepted", "accepted", "refused"]

    eventually(lambda: len(origin.calls) == 2, 60, "the webhook is called until it answers 2xx")
    call = origin.calls[-1]
    assert call.path == f"/told?by={name}"
    secret = ask(stack, token, "GET", "webhook-secret").json()["secret"]
    expected = hmac.new(secret.encode(), call.body, hashlib.sha256).hexdigest()
    assert call.headers["Tarry-Signature"] == f"sha256={expected}"
    assert Webhook(secret).verify(call.body, call.headers)["batch"] == told["batch"]
    assert json.loads(call.body)["steps"] == {"known": 1, "new": 1, "failed": 1, "refused": 1}

    found = ask(stack, token, "GET", f"batches/{told['batch']}").json()
    assert (found["settled"], found["total"]) == (4, 4)
    digest = hashlib.sha256(f"the file /{name}\n".encode()).hexdigest()
    assert [item["digest"] for item in found["items"]] == [digest, digest, None, None]
    retry_times = [item["retry_at"] for item in found["items"]]
    assert [at is None for at in retry_times] == [True, True, False, True]
    in_a_day = datetime.now(UTC) + timedelta(days=1)
    assert timedelta(minutes=-5) < datetime.fromisoformat(retry_times[2]) - in_a_day <= timedelta(0)
    assert sorted(path for path in origin.asked if name in path) == sorted([f"/{name}", f"/missing/{name}"])
    assert origin.referers == {"https://example.org/"}
    again = ask(stack, token, "POST", "resources", json=body).json()
    assert (again["batch"], again["is_new"], again["finished"]) == (told["batch"], False, True)
    assert [one["retry_at"] for one in again["urls"]] == retry_times


def test_a_file_of_urls_is_ingested_and_the_exit_code_tells_of_failures(
    stack: Stack, origin: ReportingServer, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "urls.txt"
    file.write_text(f"# one\n{origin.url}/{name}\n")
    assert "1 URLs: 1 stored, 0 failed, 0 refused." in stack.manage("ingest", str(file))
    file.write_text(f"{origin.url}/{name}\n{origin.url}/missing/{name}\n")
    with pytest.raises(RuntimeError) as failed:
        stack.manage("ingest", str(file))
    assert "2 URLs: 1 stored, 1 failed, 0 refused." in str(failed.value)
    assert f"{origin.url}/missing/{name}: " in str(failed.value)
    assert origin.asked.count(f"/{name}") == 1


def test_an_ingest_that_was_killed_goes_on_where_it_was(
    stack: Stack, origin: ReportingServer, name: str, tmp_path: Path
) -> None:
    urls = [f"{origin.url}/{name}/{number}" for number in range(7)]
    file = tmp_path / "urls.txt"
    file.write_text("".join(f"{urls[number % 7]}\n" for number in range(MOST_LINES + 1000)))
    command = [sys.executable, "manage.py", "ingest", str(file)]
    with subprocess.Popen(command, cwd=ROOT, env=stack.environment, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout
        assert next(killed.stdout) == f"{MOST_LINES:,} reported\n"  # one of two lists
        killed.kill()
    assert killed.returncode == -signal.SIGKILL

    ended = stack.manage("ingest", str(file))
    assert f"{MOST_LINES + 1000:,} URLs: {MOST_LINES + 1000:,} stored, 0 failed, 0 refused." in ended
    assert sorted(path for path in origin.asked if name in path) == [f"/{name}/{number}" for number in range(7)]
