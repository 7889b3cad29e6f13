"""The names of all processes of a site, from the list that it is started by."""

from pathlib import Path

from project.paths import DataDirectory, RuntimeDirectory
from project.processes import Plan, processes

_NOWHERE = Path()
_ALL = processes(Plan("", "", "", DataDirectory(_NOWHERE), RuntimeDirectory(_NOWHERE)))

PROCESSES = tuple(process.name for process in _ALL)
STORES = tuple(process.name for process in _ALL if process.group == "stores")
