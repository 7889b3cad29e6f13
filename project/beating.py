"""Beat's scheduler, in memory: no file that a kill could leave damaged. It follows a clock that is set back."""

from typing import Any

from celery import beat


class Scheduler(beat.Scheduler):
    """Celery's own waits, once the clock is set back, until it is again where it was: nothing is due all that time."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Publishes what is due. Returns seconds until something is due next."""
        ahead = [
            entry for entry in self.schedule.values() if entry.last_run_at and entry.last_run_at > entry.default_now()
        ]
        for entry in ahead:
            entry.last_run_at = entry.default_now()
        if ahead:
            self.populate_heap()  # it has the times of before
        return float(super().tick(*args, **kwargs))
