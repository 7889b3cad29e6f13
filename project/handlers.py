"""Django's handlers of requests, for main: requests of content have one of their own.

Such a request without cookies passes neither sessions, users, messages nor the check of forms, which would find nothing
and take a third of Django's own time.
"""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

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


def _make_handler(*, for_people: bool) -> WSGIApplication:
    everything = settings.MIDDLEWARE
    if not for_people:
        settings.MIDDLEWARE = [name for name in everything if name not in FOR_PEOPLE]
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
