"""The work of telling a hub that one address has changed. PURE."""

from feeds.composing.asking import Format
from retry.work import Work

TASK = "feeds.announce"
LANE = "fetch.calls"
FORMATS: tuple[Format, ...] = ("atom", "rss", "json")
"""Those that name the hub."""


def work(hub: str, path: str, row: str) -> Work:
    """Has the fetchers tell the hub of the address. `row` is what it is of.

    What follows `#` is not sent: each is a request of its own.
    """
    return Work(
        f"announcement:{path}", "announcement", LANE, LANE, TASK, (f"{hub.partition('#')[0]}#{path}", path, row)
    )
