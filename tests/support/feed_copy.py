"""A program that keeps a copy of a site's entries. It knows of the API no more than its description says.

Its copy, with the cursor, is one text, as a real program would write both in one transaction: it can be stopped and
loaded again at any time.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

Get = Callable[[str], tuple[int, Any]]
"""Asks for a path, and returns the status and the JSON of the answer."""


@dataclass(slots=True)
class FeedCopy:
    """The entries by their ids, each with the id and the slug of its feed. `selection`: a `feed` or `category`.

    `counts` is of the changes by their kinds; `again`, of entries that were given though they are here, unchanged.
    """

    get: Get
    selection: dict[str, str] = field(default_factory=dict)
    cursor: str = ""
    entries: dict[int, dict[str, Any]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    limit: int = 100

    def sync(self) -> None:
        """Asks until there is no more. Begins anew where the cursor is refused."""
        while self.sync_page():
            pass

    def sync_page(self, *, dies: bool = False) -> bool:
        """Asks for one page and applies it, unless the program dies just before. False if there is no more."""
        query = {**self.selection, "limit": str(self.limit)}
        status, page = self.get(f"/api/entries?{urlencode({**query, 'changed_since': self.cursor})}")
        if status == 410:
            self.counts["begun anew"] += 1
            self.cursor, self.entries = "", {}
            return True
        assert status == 200, page
        if dies:
            return True
        for change in page["changes"]:
            self.apply(change)
        self.cursor = page["cursor"]
        return bool(page["has_more"])

    def apply(self, change: dict[str, Any]) -> None:
        self.counts[change["change"]] += 1
        match change["change"]:
            case "entry":
                told = {name: change[name] for name in ("feed_id", "feed", "entry")}
                self.counts["again"] += self.entries.get(change["entry_id"]) == told
                self.entries[change["entry_id"]] = told
            case "entry_removed":
                self.counts["unknown"] += self.entries.pop(change["entry_id"], None) is None
            case "feed_removed":
                gone = [key for key, one in self.entries.items() if one["feed_id"] == change["feed_id"]]
                for key in gone:
                    del self.entries[key]

    def saved(self) -> str:
        return json.dumps({"cursor": self.cursor, "entries": {str(key): one for key, one in self.entries.items()}})

    def load(self, saved: str) -> None:
        found = json.loads(saved)
        self.cursor = found["cursor"]
        self.entries = {int(key): one for key, one in found["entries"].items()}
