"""Fixtures of the tests of hostile origins."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for secure.example, which only the tests trust."""
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=secure.example", "-addext", "subjectAltName=DNS:secure.example"),
            *("-keyout", str(directory / "key"), "-out", str(directory / "certificate")),
        ],
        check=True,
        capture_output=True,
    )
    return directory
