"""System checks of this machine's roles, and of its settings beside those of other machines: none may contradict.

Other machines' settings are known by digests in `state`. Nothing is compared while that does not answer.
"""

import ipaddress
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min
from redis.exceptions import RedisError

from resources import locks, machines
from retry import stores

from .environment import own_store_url, storage_folder
from .nginx_config import is_address
from .paths import RuntimeDirectory
from .processes import ROLES

LISTENERS = {
    "main": "MAIN_LISTEN",
    "retry": "RETRY_INSTANCE_LISTEN",
    "state": "STATE_LISTEN",
    "cache": "CACHE_LISTEN",
    "metrics": "METRICS_LISTEN",
}
"""By role, or what is no role, the setting with the address at which this machine answers other machines."""

SERVERS = {"main": "MAIN_SERVERS", "retry": "RETRY_SERVERS"}
"""By role, the setting with the addresses at which other machines answer this one's front."""

STORES = {"state": "REDIS_URL", "cache": "CACHE_URL"}


def check_roles(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks ROLES against the places of the stores, of the database and of files, and what listens for whom."""
    listening = [*_addresses(), *_open_instances(), *_open_stores(), *_open_figures(), *_idle_stores()]
    if tuple(settings.ROLES) == ROLES or set(settings.ROLES) <= set(STORES):
        return listening
    return [*listening, *_missing_stores(), *_divided_roles(), *_unread_log(), *_lone_database(), *_lone_files()]


def is_own_store(role: str) -> bool:
    """Tells whether `state` or `cache` is the server that this machine starts if it has that role."""
    socket = RuntimeDirectory(settings.RUNTIME_DIR).socket(role)
    return bool(getattr(settings, STORES[role]) == own_store_url(socket, getattr(settings, f"{role.upper()}_PASSWORD")))


def _addresses() -> Iterator[CheckMessage]:
    given = {name: [getattr(settings, name)] for name in LISTENERS.values() if getattr(settings, name)}
    given |= {name: list(getattr(settings, name)) for name in SERVERS.values()}
    given |= {"MACHINE_URL": [settings.MACHINE_URL]} if settings.MACHINE_URL else {}
    for name, addresses in given.items():
        if wrong := [address for address in addresses if not is_address(address)]:
            text = f"{name} has {wrong[0]!r}, which is no host and port."
            yield Error(text, hint="Write host:port, as 10.0.0.5:8100, separated by commas.", id="project.E011")
    try:
        [ipaddress.ip_network(network, strict=False) for network in settings.FRONTS]
    except ValueError as error:
        yield Error(f"FRONTS must be addresses and networks: {error}.", hint="As 10.0.0.0/24.", id="project.E012")


def _open_instances() -> Iterator[CheckMessage]:
    for role in ("main", "retry"):
        if getattr(settings, LISTENERS[role]) and not settings.FRONTS:
            text = f"{LISTENERS[role]} is set, and FRONTS names no machine that may ask there."
            hint = "Set FRONTS to the addresses or networks of the fronts: all others get 403."
            yield Error(text, hint=hint, id="project.E008")


def _open_stores() -> Iterator[CheckMessage]:
    for role, address in STORES.items():
        listen, setting = getattr(settings, LISTENERS[role]), f"{role.upper()}_PASSWORD"
        if listen and not _is_loopback(listen) and not getattr(settings, setting):
            text = f"{LISTENERS[role]} is {listen}, which other machines reach, and {setting} is empty."
            hint = f"Set {setting} to a long random text, here and in {address} of the other machines."
            yield Error(text, hint=hint, id="project.E009")
        elif "\n" in getattr(settings, setting):
            yield Error(f"{setting} has more than one line.", id="project.E009")


def _open_figures() -> Iterator[CheckMessage]:
    listen = settings.METRICS_LISTEN
    if listen and not _is_loopback(listen) and not settings.METRICS_TOKEN:
        text = f"METRICS_LISTEN is {listen}, which other machines reach, and METRICS_TOKEN is empty: all get 403."
        hint = "Set METRICS_TOKEN to a long random text, and have Prometheus send it."
        yield Error(text, hint=hint, id="project.E014")


def _idle_stores() -> Iterator[CheckMessage]:
    """Checks that a machine that is to have a store for others starts it."""
    is_alone = set(settings.ROLES) <= set(STORES)
    for role, address in STORES.items():
        is_meant = role in settings.ROLES and (is_alone or getattr(settings, LISTENERS[role]))
        if is_meant and not is_own_store(role):
            text = f"ROLES has {role}, and {address} names another server: none is started here."
            yield Error(text, hint=f"Unset {address} on this machine, or remove the role.", id="project.E013")


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _missing_stores() -> Iterator[CheckMessage]:
    for number, (role, setting) in enumerate(STORES.items(), start=1):
        if is_own_store(role) and role not in settings.ROLES:
            text = f"ROLES lacks {role}, and {setting} names no server elsewhere."
            yield Error(text, hint=f"Set {setting} to redis://host:port/0, or add the role.", id=f"project.E00{number}")


def _divided_roles() -> Iterator[CheckMessage]:
    """Checks that a front has both instances, here or elsewhere, and that an instance without a front is reached."""
    has_front = "front" in settings.ROLES
    for role, servers in SERVERS.items():
        if has_front and role not in settings.ROLES and not getattr(settings, servers):
            text = f"ROLES has front, and not {role}; {servers} names none elsewhere."
            yield Error(text, hint=f"Add {role}, or set {servers} to host:port of one or more.", id="project.E003")
        if role in settings.ROLES and not has_front and not getattr(settings, LISTENERS[role]):
            text = f"ROLES has {role}, and not front; {LISTENERS[role]} is empty, so that no front reaches it."
            yield Error(text, hint=f"Set {LISTENERS[role]} to host:port, and FRONTS.", id="project.E010")


def _unread_log() -> Iterator[CheckMessage]:
    if "front" in settings.ROLES and settings.OBSERVE and not {"work", "beat"} <= set(settings.ROLES):
        text = "ROLES has front, and not both work and beat: no process counts the front's requests."
        yield Error(text, hint="Add work and beat, or set OBSERVE=0.", id="project.E005")


def _lone_database() -> Iterator[CheckMessage]:
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        text = "The site has other machines, and DATABASE_URL names a file of this one."
        yield Error(text, hint="Use PostgreSQL: DATABASE_URL=postgres://…", id="project.E004")


def _lone_files() -> Iterator[CheckMessage]:
    if storage_folder(settings.STORAGES["default"]):
        text = "The site has other machines, and STORAGE_URL names a folder."
        yield checks.Warning(text, hint="The folder must be shared by all of them, or use a bucket.", id="project.W001")


SAME_NUMBERS = (
    *("DEFAULT_RETRY_TIMEOUT", "RETRY_MAX_WAITS", "RETRY_TICKET_SECONDS", "RETRY_LEASE_SECONDS"),
    *("RETRY_MAX_PREPARE_SECONDS", "RETRY_DONE_SECONDS", "RETRY_SKIP_SECONDS", "RETRY_AGE_SECONDS", "HOT_SECONDS"),
    *("FETCH_LEASE_SECONDS", "FETCH_DELAY_SECONDS", "FETCH_MAX_PER_SECOND", "FETCH_MAX_IN_FLIGHT"),
)
"""Settings that should be the same on all machines. They may differ while they are changed on one after the other."""


STARTING_SECONDS = 15
"""A machine that starts keeps others of its name from doing so for so long. Then its record is there."""


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
        "QUEUES_URL": bool(settings.QUEUES_URL),
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
    others = _read_others()
    return [*_taken_name(others), *_different_settings(digests, others), *_lone_places(others)]


def compare_settings(digests: machines.Digests) -> list[CheckMessage]:
    """Does the same without the name, as long as the machine's own earlier record may be there."""
    others = _read_others()
    return [*_different_settings(digests, others), *_lone_places(others)]


def _read_others() -> Sequence[machines.HeardMachine]:
    try:
        return machines.read_machines(stores.fast_client("state"))
    except RedisError:
        return []


def _lone_places(others: Sequence[machines.HeardMachine]) -> Iterator[CheckMessage]:
    """Checks the places of a machine with all roles: by its roles alone it could be the only one."""
    parts = [one for one in others if one.is_alive and one.name != settings.MACHINE and set(one.roles) - set(STORES)]
    if parts and tuple(settings.ROLES) == ROLES:
        yield from (*_lone_database(), *_lone_files())
    if parts and "cache" in settings.ROLES and is_own_store("cache") and not settings.CACHE_LISTEN:
        text = "The site has other machines, and CACHE_URL names a server of this one alone."
        yield Error(text, hint="Set CACHE_URL to that of the others, or CACHE_LISTEN for them.", id="project.E002")


def _different_settings(digests: machines.Digests, others: Sequence[machines.HeardMachine]) -> Iterator[CheckMessage]:
    for name, machine in machines.list_differences(settings.MACHINE, digests, others):
        text = f"{name} is not the same here and on the machine {machine}."
        if name in SAME_NUMBERS:
            yield checks.Warning(text, hint="Set it to one value on all machines.", id="project.W002")
        else:
            yield Error(text, hint="All machines of a site share it: set it alike, or end that one.", id="project.E006")


def _taken_name(others: Sequence[machines.HeardMachine]) -> Iterator[CheckMessage]:
    if list(_namesakes(others)):
        text = f"Another machine is called {settings.MACHINE}."
        hint = f"Set MACHINE to another name, or wait {machines.OVERDUE_SECONDS:.0f} s if that machine is gone."
        yield Error(text, hint=hint, id="project.E007")


def _namesakes(others: Sequence[machines.HeardMachine]) -> Iterator[machines.HeardMachine]:
    for machine in others:
        if machine.is_alive and machine.name == settings.MACHINE and machine.installation != settings.INSTALLATION:
            yield machine


def await_earlier_start() -> None:
    """Waits until this installation's record from before its host was started anew is overdue, if it has one.

    A copy of it that runs on another host has a record, too, which stays.
    """
    own, deadline = settings.INSTALLATION.partition(".")[0], time.monotonic() + machines.OVERDUE_SECONDS
    with suppress(RedisError):
        while time.monotonic() < deadline:
            namesakes = _namesakes(machines.read_machines(stores.fast_client("state")))
            if not any(machine.installation.partition(".")[0] == own for machine in namesakes):
                return
            time.sleep(1)


def await_start() -> None:
    """Waits while another machine of this name starts, until its record tells of it, or it is gone."""
    client, key = stores.fast_client("state"), locks.machine_key(settings.MACHINE, "start")
    deadline = time.monotonic() + 2 * STARTING_SECONDS
    with suppress(RedisError):
        while not client.set(key, settings.INSTALLATION, nx=True, ex=STARTING_SECONDS):
            if client.get(key) == settings.INSTALLATION.encode() or time.monotonic() > deadline:
                return
            time.sleep(1)
