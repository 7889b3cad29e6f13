"""`make audit` asks about every package that may be installed. Asks no server here."""

import os
import re
import shlex
import subprocess

from packaging.requirements import Requirement

from project.paths import BASE_DIR


def audited() -> list[str]:
    """The command of `make audit`, without the set-up before it, and without a word of the make that runs the tests."""
    command = ["make", "--no-print-directory", "--dry-run", "--old-file=setup", "audit"]
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(command, cwd=BASE_DIR, env=alone, capture_output=True, text=True, check=True)
    return shlex.split(shown.stdout)


def pinned() -> set[str]:
    """The packages that the files name for this Python."""
    files = [BASE_DIR / name for name in ("requirements.txt", "requirements-dev.txt")]
    wanted = [Requirement(line) for file in files for line in file.read_text().splitlines()]
    assert all(re.fullmatch(r"==[^*,]+", str(one.specifier)) for one in wanted)
    return {one.name for one in wanted if one.marker is None or one.marker.evaluate()}


def test_every_pin_is_asked_about() -> None:
    done = subprocess.run([*audited(), "--dry-run"], cwd=BASE_DIR, capture_output=True, text=True, check=True)
    assert f"would have audited {len(pinned())} packages" in done.stderr


def test_what_cannot_be_asked_about_is_a_failure() -> None:
    assert "--strict" in audited()
