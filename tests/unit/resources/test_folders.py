"""Folders of moments: a held one is never taken, and none outlives its process for long."""

import subprocess
import sys
from pathlib import Path

from project.paths import BASE_DIR
from resources import folders

HOLDING = """
import sys
from pathlib import Path
from resources import folders
with folders.hold_folder(Path(sys.argv[1])) as folder:
    (folder / "file").touch()
    print(flush=True)
    sys.stdin.read()
"""


def test_a_folder_goes_with_what_is_in_it(tmp_path: Path) -> None:
    with folders.hold_folder(tmp_path / "deep" / "down") as folder:
        (folder / "file").touch()
    assert list((tmp_path / "deep" / "down").iterdir()) == []


def test_what_a_killed_process_held_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, cwd=BASE_DIR, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holding:
        assert holding.stdout
        holding.stdout.readline()
        [theirs] = tmp_path.glob("held-*")
        folders.remove_orphaned_folders(tmp_path)
        assert [path.name for path in theirs.iterdir()] == ["file"]
        holding.kill()
    folders.remove_orphaned_folders(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
