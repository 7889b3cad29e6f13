"""The effect of each fault on the steady client, as a table in Markdown."""

from collections import Counter
from collections.abc import Sequence

from .schedule import Suffered, during
from .steady import End, Record

SHOWN = 160
"""Characters of an answer."""
QUICK_SECONDS = 2
"""A longer answer was delayed: cold content takes 0.2 s to prepare."""
COLUMNS = ("fault", "held", "visits", "refused", "broken", "longest visit", "recovered after", "quick again after")
HEAD = f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}"


def table(suffered: Sequence[Suffered], records: Sequence[Record]) -> str:
    return "\n".join([HEAD, *(_row(one, during(one, records)) for one in suffered)])


def _row(one: Suffered, records: Sequence[Record]) -> str:
    if one.skipped:
        return f"| {one.fault.name} | skipped: {one.skipped} {'| ' * (len(COLUMNS) - 1)}".rstrip()
    ends = [record.end for record in records]
    longest = max((record.ended - record.began for record in records), default=0)
    recovered = "not in time" if one.seconds is None else f"{one.seconds:.1f} s"
    held_up = [record.ended for record in records if record.is_bad or record.ended - record.began > QUICK_SECONDS]
    quick = f"{max([0, *(ended - one.ended for ended in held_up)]):.1f} s"
    cells = (
        *(one.fault.name, f"{one.ended - one.began:.0f} s" if one.fault.seconds else "", str(len(records))),
        *(str(ends.count(End.REFUSED)), str(ends.count(End.BROKEN)), f"{longest:.1f} s", recovered, quick),
    )
    return f"| {' | '.join(cells)} |"


def bad_ends(suffered: Sequence[Suffered], records: Sequence[Record]) -> list[str]:
    return [line for one in suffered if not one.skipped for line in _bad_ends(one, during(one, records))]


def _bad_ends(suffered: Suffered, records: Sequence[Record]) -> list[str]:
    counted = Counter((one.end.value, one.kind, one.detail[:SHOWN]) for one in records if one.is_bad)
    lines = [f"  {number} x {end}: {kind}: {said}" for (end, kind, said), number in counted.most_common()]
    return [f"{suffered.fault.name}:", *lines] if lines else []
