"""Beat's scheduler, in memory: no file that a kill could leave damaged. It follows a clock that is set back.

So does nginx on its machine then, which knows no other way.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from celery import beat
from django.conf import settings

from project import forgetting
from project.paths import DataDirectory

_log = logging.getLogger("tarry.beat")

NOTABLE = timedelta(seconds=10)
"""A clock that is set back by less is corrected a little; what nginx keeps is not much older then."""


class Scheduler(beat.Scheduler):
    """Celery's own waits, once the clock is set back, until it is again where it was: nothing is due all that time."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Publishes what is due. Returns seconds until something is due next."""
        now = datetime.now(UTC)
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at and entry.last_run_at > now]
        is_notable = any(entry.last_run_at > now + NOTABLE for entry in ahead if entry.last_run_at)
        for entry in ahead:
            entry.last_run_at = entry.default_now()
        if is_notable:
            _have_nginx_forget()
        if ahead:
            self.populate_heap()  # it has the times of before
        return float(super().tick(*args, **kwargs))


def _have_nginx_forget() -> None:
    try:
        forgetting.forget(DataDirectory(settings.DATA_DIR).hot, settings.NGINX_PID_FILE)
    except OSError as error:  # what it keeps is older than it should be, and nothing else
        _log.warning("nginx does not forget its hot answers", extra={"error": str(error)})
