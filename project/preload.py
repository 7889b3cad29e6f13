"""Loads the site into supervisord, once for all programs that it forks.

It opens no connection and starts no thread: neither goes on in a forked child.
"""

import gc
import os
from importlib import import_module

import django

MODULES = (
    "project.celery",
    "project.urls",
    "project.main_worker",
    "project.exporter",
    "retry.asgi",
    "retry.gunicorn_worker",
    "retry.lane_worker",
    "retry.tasks",
    "resources.tasks",
    "feeds.tasks",
    "resources.management.commands.fetch",
    "gunicorn.app.wsgiapp",
    "gunicorn.arbiter",
    "uvicorn.protocols.http.httptools_impl",
    "celery.bin.beat",
    "celery.bin.worker",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.concurrency.thread",
    "celery.fixups.django",
    "celery.worker.worker",
    "kombu.transport.redis",
)
"""Each with all that it imports: the programs' own modules, and those that libraries load as late as possible."""

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
os.environ.setdefault("TARRY_INSTANCE", "worker")


def load_site() -> None:
    """Loads the site. Garbage collections of the children leave alone what was loaded, and so do not copy it."""
    django.setup(set_prefix=False)
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()
