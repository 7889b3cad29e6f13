"""The admin's door: Django's own sign-in, behind a measure of how many passwords are tried."""

import logging
import math
import secrets
import time

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.forms import UsernameField
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from . import addresses, guessing
from .guessing import Attempt

COOKIE = "known_browser"
COOKIE_DAYS = 90

_log = logging.getLogger("tarry.admin")


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Django's sign-in, or 429 before it looks at the password."""
    if request.method != "POST":
        return admin.site.login(request)
    now = time.time()
    attempt = _attempt(request)
    if wait_seconds := guessing.seconds_to_wait(attempt, now):
        _log.warning("too many attempts to sign in", extra={"network": attempt.network})
        return _refused(wait_seconds)
    answer = admin.site.login(request)
    if answer.status_code == 302:
        guessing.take_back(attempt, now)
        _remember(answer, attempt)
    return answer


def _attempt(request: HttpRequest) -> Attempt:
    account = UsernameField().to_python(request.POST.get("username", "")) or ""
    try:
        known = signing.loads(request.COOKIES.get(COOKIE, ""), salt=COOKIE, max_age=COOKIE_DAYS * 86_400)
    except signing.BadSignature:
        known = {}
    browser = known["browser"] if known.get("account") == account else ""
    return Attempt(addresses.network(request), account, browser)


def _remember(answer: HttpResponseBase, attempt: Attempt) -> None:
    known = {"account": attempt.account, "browser": attempt.browser or secrets.token_urlsafe(16)}
    answer.set_cookie(
        COOKIE,
        signing.dumps(known, salt=COOKIE),
        max_age=COOKIE_DAYS * 86_400,
        path="/admin/login/",
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def _refused(wait_seconds: float) -> HttpResponse:
    text = f"Too many passwords were tried. Try again in {math.ceil(wait_seconds / 60)} minutes.\n"
    answer = HttpResponse(text, status=429, content_type="text/plain; charset=utf-8")
    answer["Retry-After"] = str(math.ceil(wait_seconds))
    answer["Cache-Control"] = "no-store"
    return answer
