"""The settings of fetching, as values for the other modules, and the tasks of FETCH_TASKS."""

from dataclasses import replace
from pathlib import Path
from typing import cast

from django.conf import settings
from django.utils.module_loading import import_string

from retry.conf import cached_settings

from ..disk import room
from .http import allowed_ips
from .http.deadlines import FetchPolicy
from .http.messages import FetchLimits
from .http.retry_policy import RetryPatience
from .task import FetchTask

PRODUCT_NAME = "Tarry/0.1"


def fetch_policy() -> FetchPolicy:
    """Returns the policy of all fetches. Raises MalformedExceptionError and ValueError where `checks` finds errors."""
    return FetchPolicy(
        guard=allowed_ips.build_guard((int(port) for port in settings.FETCH_PORTS), settings.FETCH_ALLOW_PRIVATE),
        user_agent=build_user_agent(settings.FETCH_CONTACT or settings.PUBLIC_URL),
        spool_directory=Path(settings.FETCH_SPOOL_DIRECTORY),
        allow_downgrade=settings.FETCH_ALLOW_DOWNGRADE,
        take_room=room.take_room,
    )


def build_user_agent(contact: str) -> str:
    """Returns the client's User-Agent, with the contact for questions."""
    return f"{PRODUCT_NAME} (+{contact})" if contact else PRODUCT_NAME


@cached_settings
def fast_limits() -> FetchLimits:
    return FetchLimits(
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


@cached_settings
def slow_limits() -> FetchLimits:
    """Returns the limits of the slow lane: more time, larger bodies."""
    return replace(
        fast_limits(),
        deadline_seconds=settings.FETCH_SLOW_DEADLINE_SECONDS,
        max_body_bytes=settings.FETCH_SLOW_MAX_BYTES,
    )


@cached_settings
def retry_patience() -> RetryPatience:
    return RetryPatience(
        attempts=settings.FETCH_ATTEMPTS,
        base_seconds=settings.FETCH_BACKOFF_BASE_SECONDS,
        max_seconds=settings.FETCH_BACKOFF_MAX_SECONDS,
        stall_seconds=settings.FETCH_STALL_SECONDS,
    )


@cached_settings
def find_task(name: str) -> FetchTask:
    """Returns the task of that name. Raises KeyError if FETCH_TASKS does not have it, ImportError for a wrong path."""
    return cast(FetchTask, import_string(settings.FETCH_TASKS[name]))
