"""`python -m project.celery_program worker|beat OPTION…`: Celery's worker or beat of this site, by its own options.

Celery's command line would load what its interactive shell needs, into each process. Its beat inside of a worker would
be a process as well; with `--beat-thread` it is a thread.
"""

import sys
from typing import Any

from celery.beat import EmbeddedService
from celery.bin.base import CeleryOption, CLIContext
from celery.bin.beat import beat
from celery.bin.worker import worker
from celery.bootsteps import StartStopStep

from .celery import app

COMMANDS = {"worker": worker, "beat": beat}


class BeatThread(StartStopStep):
    """Beat as a thread of its worker."""

    def __init__(self, parent: Any, *, beat_thread: bool = False, **options: Any) -> None:
        self.enabled = beat_thread
        super().__init__(parent, **options)

    def create(self, parent: Any) -> Any:
        return EmbeddedService(parent.app, thread=True, scheduler_cls=parent.scheduler)

    def stop(self, parent: Any) -> None:
        """Does not wait for the thread: without the broker it would publish until that is back."""
        self.obj.service.stop()

    terminate = stop


def main(name: str, *options: str) -> None:
    """Runs one of COMMANDS, and exits with its status."""
    worker.params.append(CeleryOption(["--beat-thread"], is_flag=True, help_group="Embedded Beat Options"))
    app.steps["worker"].add(BeatThread)
    COMMANDS[name].main(options, prog_name=name, obj=CLIContext(app, no_color=True, workdir=None, quiet=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
