"""The wiring: settings, processes, URLs. Holds no logic of the site."""

from .celery import app as celery_app

__all__ = ("celery_app",)
