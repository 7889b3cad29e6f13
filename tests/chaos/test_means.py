"""The means of the machine to break parts: they are tried, not guessed."""

import os
import stat
from pathlib import Path

import pytest

from . import means, resource_faults


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that the process would have become."""
    commands: list[list[str]] = []
    monkeypatch.delenv(means.APART, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "execvpe", lambda _, command, __: commands.append(command))
    return commands


def unshare(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts another program in the place of the system's."""
    program = folder / "unshare"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_root_that_may_not_mount_skips_what_takes_mounts(
    tmp_path: Path, become: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    unshare(tmp_path, "echo 'unshare: Operation not permitted' >&2; exit 1", monkeypatch)
    means.move_apart([])
    assert become == []
    assert not means.can_mount()
    full = resource_faults.of_stores(means.can_mount())[-1]
    assert (full.name, full.lacks) == ("disk full", means.NO_MOUNTS)


def test_root_that_may_mount_moves_apart(
    tmp_path: Path, become: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    unshare(tmp_path, f'echo "$*" > {tmp_path}/tried', monkeypatch)
    means.move_apart(["--only", "disk"])
    assert [command[-4:] for command in become] == [["-m", "tests.chaos", "--only", "disk"]]
    assert (tmp_path / "tried").read_text().startswith("--mount --propagation private mount -t tmpfs none ")
