"""This machine's disk at a start: the places of its parts, their shares of DISK_MAX_BYTES, and the account of files.

A start measures the site's data once, and notes the shares for all of its processes: each has the same.
Settings import this module before Django is set up: it must import no app and no model.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from resources.disk import meter, shares
from resources.disk.account import DiskAccount
from resources.disk.meter import DiskMeter, DiskPlaces, DiskUse
from resources.disk.shares import DiskShares

from .environment import storage_folder
from .paths import DataDirectory, RuntimeDirectory

UNBOUNDED = DiskShares(*(4 * [10**18]))
"""Shares that bound nothing."""


def find_places(
    data: DataDirectory, runtime: RuntimeDirectory, database: Mapping[str, Any], storage: Mapping[str, Any]
) -> DiskPlaces:
    """Finds the places of the parts. A bucket, or a database server, has none here."""
    folder = storage_folder(storage)
    is_file = str(database["ENGINE"]).endswith("sqlite3")
    return DiskPlaces(
        data=data.root,
        runtime=runtime.root,
        database=Path(database["NAME"]) if is_file else None,
        state=data.state,
        layers=folder / "layers" if folder else None,
        files=folder / "mirror" if folder else data.held,
        served=folder / "served" if folder else None,
        hot=data.hot,
        logs=data.logs,
        spool=data.spool,
        uploads=data.uploads,
        requests=(runtime.nginx / "body", runtime.nginx / "proxy"),
    )


def load_shares(note: Path, bound_bytes: int, places: DiskPlaces) -> DiskShares | None:
    """Loads the shares that the last start has noted, or takes them anew; None without a bound."""
    if not bound_bytes:
        return None
    try:
        noted = DiskShares(**json.loads(note.read_text()))
    except (OSError, ValueError, TypeError):  # none, or another version's
        noted = None
    if noted is not None and noted.bound_bytes == bound_bytes:
        return noted
    return shares.divide_disk(bound_bytes, meter.measure_data(places))


def begin_account(data: DataDirectory, found: DiskShares, places: DiskPlaces) -> DiskUse:
    """Notes the shares, and measures all parts. Counts mirrored files where there is no account of them yet."""
    data.disk_shares.write_text(json.dumps(asdict(found)))
    account = DiskAccount(data.disk_account)
    if not account.is_there():
        account.open_new(meter.count_shelves(places))
    return DiskMeter(places, found, account).measure(0)


def end_account(data: DataDirectory) -> None:
    """Forgets the account: without a bound it is not kept."""
    data.disk_shares.unlink(missing_ok=True)
    data.disk_account.unlink(missing_ok=True)


def trim_logs(logs: Path, most_bytes: int) -> None:
    """Shortens the logs of processes to their last bytes, as many as each may have from now on."""
    for file in (*logs.glob("*.log"), *logs.glob("*.log.[0-9]")):
        if file.name != "traffic.log" and file.stat().st_size > most_bytes:
            with file.open("rb") as source:
                source.seek(-most_bytes, os.SEEK_END)
                rest = source.read()
            file.write_bytes(rest)
