"""The benchmarks can be run as they are documented, without any environment."""

import os
import re
import subprocess
import sys

from project.paths import BASE_DIR


def test_every_benchmark_can_be_named() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = [sys.executable, "-m", "benchmarks", "--help"]
    run = subprocess.run(command, cwd=BASE_DIR, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    documented = re.findall(r"python -m benchmarks ((?:[a-z_]+ ?)+)", (BASE_DIR / "docs/benchmarks.md").read_text())
    assert {name for names in documented for name in names.split()} <= set(re.findall(r"[a-z_]+", run.stdout))
