"""The admin's sign-in: Django's own, behind a limit on the passwords that may be tried.

Attempts are counted in `state`, in each ten minutes of the clock, by network, and by account over all networks, so
that many networks cannot share the guessing. A browser that has signed in to the account before has a count of its
own: a stranger's guesses do not lock out the owner. (OWASP, "Slow Down Online Guessing Attacks with Device Cookies".)

`cache` is not used while `state` works: strangers can fill it with content until it evicts their attempts. It
counts only while `state` is away or full. If neither accepts an attempt, nothing is counted.

django-axes does not replace this: it has one limit for networks and accounts, counts after it has checked the
password, and fails while its cache is away.
"""

import hashlib
import logging
import math
import secrets
import time
from dataclasses import dataclass

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.forms import UsernameField
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from redis.exceptions import RedisError

from retry import stores
from retry.scripts import Server

from . import middleware

GUESS_WINDOW_SECONDS = 600
COUNTING_SERVERS: tuple[Server, ...] = ("state", "cache")
"""The servers for counts: the first one that accepts it counts an attempt."""

_log = logging.getLogger("tarry.admin")


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """One tried password. `browser` names a browser that has signed in to the account before; empty if none has."""

    network: str
    account: str
    browser: str = ""

    @property
    def measures(self) -> list[tuple[str, str, int]]:
        """The groups and members that the attempt counts for, each with its limit in a window. A limit of 0 is none."""
        most, most_of_account = settings.ADMIN_SIGN_INS, settings.ADMIN_SIGN_INS_PER_ACCOUNT
        others = [("network", self.network, most), ("account", self.account, most_of_account)]
        limits = [("browser", self.browser, most)] if self.browser else others
        return [(f"admin:{kind}", _digest_name(value), most) for kind, value, most in limits if most]


def seconds_to_wait(attempt: SignInAttempt, now_seconds: float) -> float:
    """Counts the attempt. Returns 0 if the password may be checked, else the seconds until the next window.

    An attempt beyond its network's limit does not count for the account: one network exhausts no account.
    """
    for group, member, most in attempt.measures:
        counted, wait_seconds = _count_attempt(group, member, 1, now_seconds)
        if counted > most:
            return wait_seconds
    return 0


def take_back_attempt(attempt: SignInAttempt, now_seconds: float) -> None:
    """Takes the attempt out of the counts: the password was right."""
    for group, member, _ in attempt.measures:
        _count_attempt(group, member, -1, now_seconds)


def _digest_name(value: str) -> str:
    """A digest in place of the value: people type passwords where names belong, and names have any length."""
    return hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:32]


def _count_attempt(group: str, member: str, number: int, now_seconds: float) -> tuple[int, float]:
    """Adds to a count. Returns it, 0 while no server answers, and the seconds until the next window."""
    for server in COUNTING_SERVERS:
        try:
            return stores.count_in_window(
                server, group, member, number, window_seconds=GUESS_WINDOW_SECONDS, now_seconds=now_seconds
            )
        except RedisError:
            _log.warning("a server counts no attempts to sign in", extra={"server": server}, exc_info=True)
    return 0, 0


BROWSER_COOKIE = "known_browser"
BROWSER_COOKIE_SECONDS = 90 * 86_400


def sign_in(request: HttpRequest) -> HttpResponseBase:
    """Answers with Django's sign-in, or with 429 before the password is checked."""
    if request.method != "POST":
        return admin.site.login(request)
    now = time.time()
    attempt = _read_attempt(request)
    if wait_seconds := seconds_to_wait(attempt, now):
        _log.warning("too many attempts to sign in", extra={"network": attempt.network})
        return _refusal(wait_seconds)
    answer = admin.site.login(request)
    if answer.status_code == 302:
        take_back_attempt(attempt, now)
        _remember_browser(answer, attempt)
    return answer


def _read_attempt(request: HttpRequest) -> SignInAttempt:
    account = UsernameField().to_python(request.POST.get("username", "")) or ""
    held = request.COOKIES.get(BROWSER_COOKIE, "")
    try:
        known = signing.loads(held, salt=BROWSER_COOKIE, max_age=BROWSER_COOKIE_SECONDS)
    except signing.BadSignature:
        known = {}
    browser = known["browser"] if known.get("account") == account else ""
    return SignInAttempt(middleware.request_network(request), account, browser)


def _remember_browser(answer: HttpResponseBase, attempt: SignInAttempt) -> None:
    known = {"account": attempt.account, "browser": attempt.browser or secrets.token_urlsafe(16)}
    answer.set_cookie(
        BROWSER_COOKIE,
        signing.dumps(known, salt=BROWSER_COOKIE),
        max_age=BROWSER_COOKIE_SECONDS,
        path="/admin/login/",
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def _refusal(wait_seconds: float) -> HttpResponse:
    text = f"Too many sign-in attempts. Try again in {math.ceil(wait_seconds / 60)} minutes.\n"
    fields = {"Retry-After": str(math.ceil(wait_seconds)), "Cache-Control": "no-store"}
    return HttpResponse(text, status=429, content_type="text/plain; charset=utf-8", headers=fields)
