"""The bytes of a row of each large table in PostgreSQL, and of its entries in indexes."""

import json
from collections.abc import Iterator

from ..fetch import alone
from ..figures import Figure, Note

ROWS = 100_000


def measure() -> Iterator[Figure | Note]:
    """Rows as they are, with URLs of 75 characters and entries of 1,000, added in the order of their time."""
    found = json.loads(alone.printed("benchmarks.growth.table_rows", str(ROWS), database=alone.POSTGRESQL))
    yield Note(f"{ROWS:,} rows; of feeds a tenth")
    for table, (row, indexes) in found.items():
        yield Figure(f"{table}: a row; its entries in indexes {indexes:,.0f} bytes", row, "bytes")
