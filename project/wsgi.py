"""The main instance, for a WSGI server. Queries are ASCII; the rest of every request body is read before the answer."""

import os

from django.db import connections
from django.urls import get_resolver

from project.handlers import disconnect_idle_receivers, make_application
from project.main_http import drain_bodies, encode_queries
from project.shared_answers import share_answers

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = share_answers(encode_queries(drain_bodies(make_application())))

from project import celery  # noqa: E402, F401  views hand work over to its broker
from resources.tiles import layers  # noqa: E402  needs the apps

get_resolver().url_patterns  # noqa: B018  the views are imported now, not by the first request
layers.load_first_snapshot()
disconnect_idle_receivers()
connections.close_all()  # this thread answers no requests
