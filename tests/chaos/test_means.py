"""The means of the machine to break parts: they are tried, not guessed."""

import os
from pathlib import Path

import pytest

from . import means, resource_faults


@pytest.mark.parametrize("may_mount", [False, True])
def test_only_root_that_may_mount_moves_apart_and_else_what_takes_mounts_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, may_mount: bool
) -> None:
    become: list[list[str]] = []
    monkeypatch.delenv(means.APART, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "execvpe", lambda _, command, __: become.append(command))
    program = tmp_path / "unshare"  # in the place of the system's
    program.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/tried; exit {int(not may_mount)}\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    means.move_apart(["--only", "disk"])
    assert (tmp_path / "tried").read_text().startswith("--mount --propagation private mount -t tmpfs none ")
    apart = [["-m", "tests.chaos", "--only", "disk"]] if may_mount else []
    assert [command[-4:] for command in become] == apart
    assert not means.can_mount()
    full = resource_faults.of_stores(means.can_mount())[-1]
    assert (full.name, full.lacks) == ("disk full", means.NO_MOUNTS)
