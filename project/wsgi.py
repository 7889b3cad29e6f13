"""The main instance, for a WSGI server."""

import os

from django.core.wsgi import get_wsgi_application
from django.db import connections
from django.urls import get_resolver

from project.draining import drained

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = drained(get_wsgi_application())

from project import celery  # noqa: E402, F401  what views hand over goes to its broker
from resources.tiles import layers  # noqa: E402 - needs the apps

get_resolver().url_patterns  # noqa: B018  the views are imported now, not by the first request
layers.read_first()
connections.close_all()  # this thread answers no requests
