"""The cost of hostile files for the fetcher's process, in which many are recognised at a time."""

import struct
import subprocess
import sys
from pathlib import Path

from project.paths import BASE_DIR
from resources.management.commands.fetch import TASK_THREADS
from tests.hostile import files

MOST_BYTES = 512 * 1024 * 1024
PROGRAM = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import django

django.setup()
import resources.management.commands.fetch  # all that a fetcher has loaded
from resources.mirror.media.sniff import recognise_content

paths = [path for path in sorted(Path(sys.argv[1]).iterdir()) for _ in range({threads})]
with ThreadPoolExecutor({threads}) as threads:
    found = list(threads.map(recognise_content, paths))
assert len(found) == len(paths)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024)
"""


SEGMENT = b"\xff\xe1" + struct.pack(">H", 65_535) + bytes(65_533)
BOMBS = (files.BOMBS["texts.png"], files.BOMBS["profile.png"], b"\xff\xd8" + SEGMENT * 250)
"""Those that take the most memory before their picture."""


def test_as_many_bombs_as_there_are_threads_stay_within_half_a_gigabyte(tmp_path: Path) -> None:
    for number, body in enumerate(BOMBS):
        (tmp_path / str(number)).write_bytes(body)
    command = [sys.executable, "-c", PROGRAM.format(threads=TASK_THREADS), str(tmp_path)]
    done = subprocess.run(command, cwd=BASE_DIR, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MOST_BYTES
