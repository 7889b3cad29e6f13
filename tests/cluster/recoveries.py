"""The table of faults and recoveries of one run: printed at its end, and kept in a file."""

from collections.abc import Sequence
from pathlib import Path

from ..chaos.schedule import Suffered
from ..chaos.steady import Record
from ..chaos.table import HEAD, bad_ends, table


class Recoveries:
    """The rows so far. The file has all of them after each."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.rows: list[str] = []
        self.bad: list[str] = []

    def add(self, suffered: Sequence[Suffered], records: Sequence[Record]) -> None:
        """Adds the rows of one load, in Markdown."""
        self.rows += table(suffered, records).removeprefix(HEAD).split("\n")[1:]
        self.bad += bad_ends(suffered, records)
        self.file.write_text("\n".join([HEAD, *self.rows, ""]))
