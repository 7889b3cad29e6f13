"""Which process runs which tests: the flows of a site in one, all others in the rest of the time."""

import os

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

FLOWS = "tests/flows/"
FOLDERS = ("faults", "small_site")
OWN_SITE = ("faults", "test_redis", "small_site", "test_deliveries", "test_chaos", "test_small", "test_another_project")
LONGEST = (*OWN_SITE, "test_map_page", "test_feeds", "test_layer_page", "test_api_description", "test_backup")
ORDERS = (("own", "other"), ("shared", "own"), ("shared", "own"), ("other",))
"""The kinds of tests that each of four processes begins with: with a site of their own, with a shared one, others."""


class BySite(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """Gives the flows of a site to one process: those of a folder, a file or a delivery. Other tests go by their file.

    A flow often waits: one process runs other tests meanwhile, and in the end all do.
    """

    def _split_scope(self, nodeid: str) -> str:
        path, _, test = nodeid.partition("::")
        if not path.startswith(FLOWS):
            return f"other {path}"
        part = _part(path)
        delivery = test.partition("[")[2] if part == "test_deliveries" else ""
        return f"{'own' if part in OWN_SITE else 'shared'} {part} {delivery}"

    def _assign_work_unit(self, node: WorkerController) -> None:
        kinds = ORDERS[self.nodes.index(node) % len(ORDERS)]
        fitting = next((scope for kind in kinds for scope in self.workqueue if scope.startswith(kind)), None)
        if fitting is not None:
            self.workqueue.move_to_end(fitting, last=False)
        elif "other" in kinds and len(self.nodes) > 1:  # no flows: an ordinary user cannot leave SCHED_IDLE
            node.shutdown()
            return
        super()._assign_work_unit(node)


def sort_by_length(items: list[pytest.Item]) -> None:
    """Begins with the flows that take longest, so that all processes end at the same time."""
    items.sort(key=_position)


def wait_for_processors(item: pytest.Item) -> None:
    """Beside flows, gives the process of any other test only processors that are idle."""
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(FLOWS):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _position(item: pytest.Item) -> int:
    path = item.nodeid.partition("::")[0]
    if not path.startswith(FLOWS):
        return len(LONGEST) + 1
    part = _part(path)
    return LONGEST.index(part) if part in LONGEST else len(LONGEST)


def _part(path: str) -> str:
    """The file's name, or that of its folder if its tests share a site of their own."""
    folder, file = path.removesuffix(".py").split("/")[-2:]
    return folder if folder in FOLDERS and file not in OWN_SITE else file
