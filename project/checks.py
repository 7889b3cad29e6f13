"""System checks of this machine's roles: settings that contradict each other on a site of several machines."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error

from .environment import storage_folder
from .processes import ROLES

_ANSWERING = ("front", "main", "retry")


def check_roles(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks ROLES against the places of the stores, of the database and of files."""
    if tuple(settings.ROLES) == ROLES:
        return []
    return [*_missing_stores(), *_divided_roles(), *_unread_log(), *_lone_database(), *_lone_files()]


def _missing_stores() -> Iterator[CheckMessage]:
    for number, (role, setting) in enumerate((("state", "REDIS_URL"), ("cache", "CACHE_URL")), start=1):
        is_own = getattr(settings, setting) == f"unix://{settings.RUNTIME_DIR}/{role}.sock"
        if is_own and role not in settings.ROLES:
            text = f"ROLES lacks {role}, and {setting} names no server elsewhere."
            yield Error(text, hint=f"Set {setting} to redis://host:port/0, or add the role.", id=f"project.E00{number}")


def _divided_roles() -> Iterator[CheckMessage]:
    missing = [role for role in _ANSWERING if role not in settings.ROLES]
    if missing and len(missing) < len(_ANSWERING):
        text = f"ROLES has some of {', '.join(_ANSWERING)}, and not {', '.join(missing)}."
        yield Error(text, hint="These three run on one machine, or on each of several.", id="project.E003")


def _unread_log() -> Iterator[CheckMessage]:
    if "front" in settings.ROLES and settings.OBSERVE and not {"work", "beat"} <= set(settings.ROLES):
        text = "ROLES has front, and not both work and beat: no process counts the front's requests."
        yield Error(text, hint="Add work and beat, or set OBSERVE=0.", id="project.E005")


def _lone_database() -> Iterator[CheckMessage]:
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        text = "ROLES divides the site among machines, and DATABASE_URL names a file of this one."
        yield Error(text, hint="Use PostgreSQL: DATABASE_URL=postgres://…", id="project.E004")


def _lone_files() -> Iterator[CheckMessage]:
    if storage_folder(settings.STORAGES["default"]):
        text = "ROLES divides the site among machines, and STORAGE_URL names a folder."
        yield checks.Warning(text, hint="The folder must be shared by all of them, or use a bucket.", id="project.W001")
