"""Django's handlers of requests, for main: requests of content have one of their own.

Such a request without cookies passes neither sessions, users, messages nor the check of forms, which would find nothing
and take a third of Django's own time.
"""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import django
from django.conf import settings
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import reset_queries

FOR_PEOPLE = frozenset(
    {
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "project.middleware.LargeBodiesMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    }
)
"""The middleware for clients that sign in or send forms."""

OF_PAGES = frozenset({"django.middleware.security.SecurityMiddleware"})
"""The middleware whose fields PagePoliciesMiddleware adds where it is left out. The settings have no SSL redirect."""

IDLE_RECEIVERS = ((request_started, reset_queries), (request_finished, close_caches), (request_finished, reset_urlconf))
"""Queries are noted with DEBUG alone, django_redis keeps its connections, and no request has URLs of its own."""


def disconnect_idle_receivers() -> None:
    """Takes receivers off Django's signals that would do nothing at each request. Those for the database stay."""
    for signal, receiver in () if settings.DEBUG else IDLE_RECEIVERS:
        signal.disconnect(receiver)


def _make_handler(*, for_people: bool) -> WSGIApplication:
    everything = settings.MIDDLEWARE
    if not for_people:
        settings.MIDDLEWARE = [name for name in everything if name not in FOR_PEOPLE | OF_PAGES]
    try:
        return WSGIHandler()
    finally:
        settings.MIDDLEWARE = everything


def make_application() -> WSGIApplication:
    django.setup(set_prefix=False)
    full, plain = _make_handler(for_people=True), _make_handler(for_people=False)
    addresses = settings.CONTENT_ADDRESSES

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        is_plain = environ["REQUEST_METHOD"] in {"GET", "HEAD"} and not environ.get("HTTP_COOKIE")
        handler = plain if is_plain and environ.get("PATH_INFO", "").startswith(addresses) else full
        return handler(environ, start_response)

    return answered
