"""The settings that fetching reads, in the form that its other modules take them."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from .addressing import addresses
from .errands import Task
from .requests import Limits
from .transport.giving_up import Patience
from .transport.policy import Policy

PRODUCT = "Tarry/0.1"


def policy() -> Policy:
    """What holds for all fetches. Raises MalformedExceptionError and ValueError where `checks` finds errors."""
    return Policy(
        guard=addresses.guard((int(port) for port in settings.FETCH_PORTS), settings.FETCH_ALLOW_PRIVATE),
        user_agent=user_agent(settings.FETCH_CONTACT or settings.PUBLIC_URL),
        spool_directory=Path(settings.FETCH_SPOOL_DIRECTORY),
        allow_downgrade=settings.FETCH_ALLOW_DOWNGRADE,
    )


def user_agent(contact: str) -> str:
    """How the client names itself, and whom to ask about it."""
    return f"{PRODUCT} (+{contact})" if contact else PRODUCT


@cache
def fast_limits() -> Limits:
    """The limits of the fast lane."""
    return Limits(
        deadline_seconds=settings.FETCH_DEADLINE_SECONDS,
        head_seconds=settings.FETCH_HEAD_SECONDS,
        connect_seconds=settings.FETCH_CONNECT_SECONDS,
        min_bytes_per_second=settings.FETCH_MIN_BYTES_PER_SECOND,
        window_seconds=settings.FETCH_RATE_WINDOW_SECONDS,
        max_body_bytes=settings.FETCH_MAX_BYTES,
        max_redirects=settings.FETCH_MAX_REDIRECTS,
        spool_bytes=settings.FETCH_SPOOL_BYTES,
        slow_after_seconds=settings.FETCH_SLOW_AFTER_SECONDS,
    )


@cache
def slow_limits() -> Limits:
    """Those of the slow lane: more time, larger bodies."""
    return replace(
        fast_limits(),
        deadline_seconds=settings.FETCH_SLOW_DEADLINE_SECONDS,
        max_body_bytes=settings.FETCH_SLOW_MAX_BYTES,
    )


@cache
def patience() -> Patience:
    """How often something is tried, and for how long."""
    return Patience(
        attempts=settings.FETCH_ATTEMPTS,
        base_seconds=settings.FETCH_BACKOFF_BASE_SECONDS,
        max_seconds=settings.FETCH_BACKOFF_MAX_SECONDS,
        stall_seconds=settings.FETCH_STALL_SECONDS,
    )


def _forget(**_: Any) -> None:
    for read in (fast_limits, slow_limits, patience):
        read.cache_clear()


setting_changed.connect(_forget)  # tests override settings


def task(name: str) -> Task:
    """The task of that name. Raises KeyError for one that FETCH_TASKS does not have, ImportError for a wrong path."""
    return _imported(settings.FETCH_TASKS[name])


@cache
def _imported(path: str) -> Task:
    return cast(Task, import_string(path))
