"""The rules for URLs that are in force: built in, of the settings, of a file, and those that admins have approved.

A process asks for all of them again every MIRROR_RULES_SECONDS. What cannot be read changes nothing: the file, or
the approved rules, hold as they were read last.
"""

import logging
from functools import lru_cache

from django.conf import settings
from django.db import Error as DatabaseError

from resources.snapshots import Snapshot

from .. import conf
from ..canonical import parameters, shards
from ..canonical.clearurls import RulesFile
from ..canonical.rules import Learnt, Rules, learnt
from .models import Rule
from .rules_file import LastFile

_log = logging.getLogger("tarry.mirroring")


def current_rules() -> Rules:
    """The rules in force. Asks neither the file nor the database when both were asked a moment ago."""
    return _together(tuple(settings.MIRROR_TRACKING), tuple(settings.MIRROR_SHARDS), _FILE.get(), _approved())


def forget() -> None:
    """Reads all of it again when it is asked for next: what an admin decides holds at once in this process."""
    _APPROVED.forget()
    _FILE.forget()


def _read_approved() -> Learnt:
    rows = list(Rule.objects.filter(decision=Rule.Decision.APPROVED).order_by("pk"))
    labels = [row.host for row in rows if row.kind == Rule.Kind.LABEL]
    named = [(row.host, row.name) for row in rows if row.kind == Rule.Kind.PARAMETER]
    found, problems = learnt(labels, named)
    for problem in problems:
        _log.warning("an approved rule is left out", extra={"problem": problem})
    return found


def _approved() -> Learnt:
    """What admins have approved; nothing as long as the database could never be asked."""
    try:
        return _APPROVED.get()
    except DatabaseError:
        return _NOTHING


@lru_cache(maxsize=4)
def _together(tracking: tuple[str, ...], hosts: tuple[str, ...], file: RulesFile, approved: Learnt) -> Rules:
    """One value for the same parts. What is wrong with settings is told by system checks, and left out here."""
    return Rules(parameters.names(tracking)[0], shards.chosen(hosts)[0], file, approved)


_NOTHING = Learnt()
_FILE = Snapshot("MIRROR_RULES_FILE", LastFile().read, conf.rules_seconds)
_APPROVED = Snapshot("the approved rules for URLs", _read_approved, conf.rules_seconds)
