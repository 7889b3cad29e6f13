"""Jobs for processes of their own that behave badly. `python -m … FOLDER` starts one and waits for it."""

import os
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from resources.tiles import compile_process


@dataclass(frozen=True, slots=True)
class Sleeping:
    """Tells its process, and sleeps."""

    told: Path

    def run(self) -> Any:
        self.told.with_suffix(".new").write_text(str(os.getpid()))
        self.told.with_suffix(".new").rename(self.told)
        time.sleep(60)


@dataclass(frozen=True, slots=True)
class Spinning:
    """Takes all the time that it gets."""

    def run(self) -> Any:
        while True:
            pass


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    jobs = import_module("tests.support.paint_jobs")  # the other process would not find them in __main__
    compile_process.run_in_child(
        jobs.Sleeping(folder / "told").run, compile_process.CompileAllowance(60, 3_000_000_000, 2, folder / "uploads")
    )
