"""System checks of this machine's roles, and of its settings beside those of other machines: none may contradict.

Other machines' settings are known by digests in `state`. Nothing is compared while that does not answer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min
from redis.exceptions import RedisError

from resources import machines
from retry import stores

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


SAME_NUMBERS = (
    *("DEFAULT_RETRY_TIMEOUT", "RETRY_MAX_WAITS", "RETRY_TICKET_SECONDS", "RETRY_LEASE_SECONDS"),
    *("RETRY_MAX_PREPARE_SECONDS", "RETRY_DONE_SECONDS", "RETRY_SKIP_SECONDS", "RETRY_AGE_SECONDS", "HOT_SECONDS"),
    *("FETCH_LEASE_SECONDS", "FETCH_DELAY_SECONDS", "FETCH_MAX_PER_SECOND", "FETCH_MAX_IN_FLIGHT"),
)
"""Settings that should be the same on all machines. They may differ while they are changed on one after the other."""


def digest_settings() -> machines.Digests:
    """Returns digests of the settings that all machines must share: of the secret key, and of places and numbers.

    Hosts and credentials are left out: two machines may reach one server by different names.
    """
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    storage = settings.STORAGES["default"]
    options = storage.get("OPTIONS", {})
    places = {
        "DATABASE_URL": _find_database(),
        "STORAGE_URL": (storage["BACKEND"], options.get("bucket_name"), options.get("location", "")),
        "PUBLIC_URL": settings.PUBLIC_URL,
        "STATE_PARTITIONS": getattr(settings, "STATE_PARTITIONS", None),
    }
    if storage_folder(storage):
        places["STORAGE_URL"] = "a folder"  # it may be mounted elsewhere
    shared = places | {name: getattr(settings, name) for name in SAME_NUMBERS}
    given = {name: value for name, value in shared.items() if value is not None}
    digests = {name: [machines.digest_setting(name, value)] for name, value in given.items()}
    return {"SECRET_KEY": [machines.digest_secret("SECRET_KEY", key) for key in keys], **digests}


def _find_database() -> str | None:
    """Returns the moment of the database's first migration, which no other has; None if it cannot be read."""
    try:
        recorder = MigrationRecorder(connection)
        first = recorder.migration_qs.aggregate(first=Min("applied"))["first"] if recorder.has_table() else None
    except DatabaseError:
        return None
    return None if first is None else first.isoformat()


def compare_machines(digests: machines.Digests) -> list[CheckMessage]:
    """Checks the settings with these digests against those of living machines, and this one's name."""
    try:
        others = machines.read_machines(stores.fast_client("state"))
    except RedisError:
        return []
    return [*_taken_name(others), *_different_settings(digests, others)]


def _different_settings(digests: machines.Digests, others: Sequence[machines.HeardMachine]) -> Iterator[CheckMessage]:
    for name, machine in machines.list_differences(settings.MACHINE, digests, others):
        text = f"{name} is not the same here and on the machine {machine}."
        if name in SAME_NUMBERS:
            yield checks.Warning(text, hint="Set it to one value on all machines.", id="project.W002")
        else:
            yield Error(text, hint="All machines of a site share it: set it alike, or end that one.", id="project.E006")


def _taken_name(others: Sequence[machines.HeardMachine]) -> Iterator[CheckMessage]:
    for machine in others:
        if machine.is_alive and machine.name == settings.MACHINE and machine.installation != settings.INSTALLATION:
            text = f"Another machine is called {machine.name}."
            hint = f"Set MACHINE to another name, or wait {machines.OVERDUE_SECONDS:.0f} s if that machine is gone."
            yield Error(text, hint=hint, id="project.E007")
