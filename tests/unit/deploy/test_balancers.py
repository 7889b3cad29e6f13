"""The balancers' examples are taken by the programs that they are for, and wait for long enough. Starts none."""

import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from ...support.deployment import DEPLOY, adapt_haproxy, find_program
from ...support.documentation import code_block

EXAMPLES = DEPLOY / "balancers"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a certificate with its key, as both programs want it."""
    folder = tmp_path_factory.mktemp("certificate")
    made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=tiles.example.org")
    files = ("-keyout", folder / "tarry.key", "-out", folder / "tarry.pem")
    openssl = find_program("openssl", "openssl")
    subprocess.run([openssl, "req", "-x509", *made, *files], capture_output=True, check=True)
    return folder


def check_haproxy(text: str, folder: Path) -> str:
    (folder / "both.pem").write_text((folder / "tarry.pem").read_text() + (folder / "tarry.key").read_text())
    file = folder / "haproxy.cfg"
    file.write_text(text.replace("/etc/haproxy/tarry.pem", str(folder / "both.pem")))
    program = find_program("haproxy", "haproxy")
    done = subprocess.run([program, "-c", "-f", file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 and "WARNING" not in done.stderr else done.stderr


def check_nginx(text: str, folder: Path) -> str:
    own = re.sub(r"listen (\d+)", r"listen 127.0.0.1:8\1", text.replace("/etc/nginx", str(folder)))
    (folder / "tarry.conf").write_text(own)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    file = folder / "whole"
    file.write_text(f"pid {folder}/pid; events {{}} http {{ {temporary} include {folder}/tarry.conf; }}")
    program = find_program("nginx", "nginx")
    done = subprocess.run([program, "-t", "-e", "stderr", "-c", file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 and "[warn]" not in done.stderr else done.stderr


CHECKS = {"haproxy.cfg": check_haproxy, "nginx.conf": check_nginx}


@pytest.mark.parametrize("name", CHECKS)
def test_the_program_takes_the_example(name: str, certificate: Path) -> None:
    assert CHECKS[name]((EXAMPLES / name).read_text(), certificate) == ""


@pytest.mark.parametrize("name", CHECKS)
def test_the_program_would_tell_a_fault(name: str, certificate: Path) -> None:
    assert CHECKS[name]((EXAMPLES / name).read_text().replace("2s", "soon"), certificate)


@pytest.mark.parametrize("name", CHECKS)
def test_the_balancer_waits_for_longer_than_a_front(name: str) -> None:
    longest = max(settings.PROXY_TIMEOUT, settings.ADMIN_TIMEOUT)
    [seconds] = re.findall(r"(?:timeout server|proxy_read_timeout) (\d+)s", (EXAMPLES / name).read_text())
    assert float(seconds) > longest


def test_operations_shows_lines_of_the_file() -> None:
    lines = iter((EXAMPLES / "haproxy.cfg").read_text().splitlines())
    shown = code_block("docs/operations.md", "", "backend fronts").splitlines()
    assert [line for line in shown if line and line not in lines] == []  # in the order of the file


def test_haproxy_takes_a_front_out_and_asks_another_one() -> None:
    text = (EXAMPLES / "haproxy.cfg").read_text()
    [options] = re.findall(r"^    default-server (.*)$", text, re.MULTILINE)
    assert "on-marked-down shutdown-sessions" in options
    assert "retry-on conn-failure empty-response" in text
    assert "http-request disable-l7-retry unless { method GET HEAD }" in text
    assert "http-after-response set-status 503 if { status 502 504 }" in text


def test_nginx_says_when_to_come_back_without_a_front() -> None:
    text = (EXAMPLES / "nginx.conf").read_text()
    assert "error_page 502 504 = @away;" in text
    assert re.search(r"location @away \{\s+add_header Retry-After 1 always;\s+return 503;", text)


def test_haproxy_is_tried_with_the_same_lines(certificate: Path) -> None:
    text = adapt_haproxy("127.0.0.1:18080", {"a": "127.0.0.1:18081"})
    assert check_haproxy(text, certificate) == ""
    lines = set(text.splitlines()) - set((EXAMPLES / "haproxy.cfg").read_text().splitlines())
    assert lines == {"    bind 127.0.0.1:18080", "    server a 127.0.0.1:18081"}


def test_haproxy_notices_a_drain_before_the_front_stops() -> None:
    text = (EXAMPLES / "haproxy.cfg").read_text()
    [(interval, fall)] = re.findall(r"check inter (\d+)s .*fall (\d+)", text)
    assert "option httpchk GET /healthz/ready" in text
    [drain] = re.findall(r"DRAIN_SECONDS=(\d+)", (DEPLOY / "systemd" / "tarry@.service").read_text())
    assert int(interval) * (int(fall) + 1) < int(drain)
