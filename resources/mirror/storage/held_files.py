"""Files that one machine alone has, asked of it by another one of the same site, over HTTP by a signed path.

The signature is an HMAC-SHA256 over the method, the digest and the time, by a key derived from SECRET_KEY.

Each transfer takes a thread of main, on both machines: a process has a few at a time, and each ends in time.
"""

import hashlib
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from threading import BoundedSemaphore
from typing import cast
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from retry import scripts, stores
from retry.scripts import ScriptCall

from ... import locks
from .. import public_files
from ..errors import StorageError
from .blobs import CHUNK_BYTES

ANSWER_SECONDS = 3.0
"""The longest wait for a connection, and for the next bytes."""
MOST_TRANSFERS = 3

_places = BoundedSemaphore(MOST_TRANSFERS)

scripts.register_scripts(Path(__file__).parent / "lua", "mirror")

UPLOAD_PAUSE_SECONDS = 30
"""How long other machines take a failed upload of this one for the bucket's absence, unless one succeeds."""
AWAY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Holder:
    """A machine as others know it: whether its fetcher was heard of lately, its address, empty without one.

    `now` is the time (Unix seconds) by the clock of `state`, the one that all machines share.
    """

    is_there: bool
    address: str
    is_paused: bool
    now: float

    @property
    def pause_seconds(self) -> float | None:
        """Seconds after which a client may ask again for a file that it has; None if it may upload it now."""
        if not self.is_there:
            return float(locks.MACHINE_SECONDS)
        return AWAY_SECONDS if self.is_paused else None


def find_holder(machine: str) -> Holder:
    """Returns what is known of a machine. Raises StoreUnavailable."""
    keys = [locks.machine_key(machine), locks.machine_key(machine, "address"), _pause_key(machine)]
    found = stores.execute_call(ScriptCall("state", "mirror.holder", keys))
    installation, address, pause, seconds = cast(list[bytes | None], found)
    return Holder(installation is not None, (address or b"").decode(), pause is not None, float(seconds or 0))


def note_uploads(machine: str, *, works: bool) -> None:
    """Notes for other machines whether this one can upload. Raises StoreUnavailable."""
    with locks.open_state() as client:
        if works:
            client.delete(_pause_key(machine))
        else:
            client.set(_pause_key(machine), 1, ex=UPLOAD_PAUSE_SECONDS)


def _pause_key(machine: str) -> str:
    return locks.machine_key(machine, "upload-pause")


HELD_SALT = "resources.mirror.held"
HELD_SECONDS = 30
"""The time for which one machine may ask another one for a file by a signed path, by the clock of `state`."""


def sign_held(digest: str, now: float) -> str:
    """Returns the path by which another machine of this site gives the bytes that it alone holds."""
    until = int(now) + HELD_SECONDS
    return f"/held/{digest}/{until}/{_sign_held(digest, until, settings.SECRET_KEY)}"


def is_held_signed(digest: str, until: int, signature: str, now: float) -> bool:
    """Tells whether a machine of this site signed such a path, and not long ago."""
    if not now <= until <= now + 2 * HELD_SECONDS:
        return False
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return any(constant_time_compare(signature, _sign_held(digest, until, key)) for key in keys)


def _sign_held(digest: str, until: int, key: str) -> str:
    signed = salted_hmac(HELD_SALT, f"GET {digest} {until}", secret=key, algorithm="sha256").digest()
    return public_files.encode_base64url(signed)


def read_held(machine: Holder, digest: str, size: int) -> Generator[bytes]:
    """Yields the bytes of a blob, piece by piece, from the machine that holds them.

    The last piece comes when all bytes together have that digest. Raises StorageError, also after the first pieces:
    then the answer must end unfinished.
    """
    if not _places.acquire(blocking=False):
        raise StorageError("Enough files of other machines are under way.")
    connection = HTTPConnection(machine.address, timeout=ANSWER_SECONDS)
    try:
        yield from _checked_pieces(_ask(connection, sign_held(digest, machine.now), size), digest)
    except (OSError, HTTPException) as error:
        raise StorageError(f"The machine that has the file does not answer: {error}.") from error
    finally:
        connection.close()
        _places.release()


def _ask(connection: HTTPConnection, path: str, size: int) -> HTTPResponse:
    host = urlsplit(settings.PUBLIC_URL).netloc or "localhost"  # the site's own name, at whatever address
    connection.request("GET", path, headers={"Host": host, "Accept-Encoding": "identity"})
    answer = connection.getresponse()
    if answer.status != 200 or answer.length != size:
        raise StorageError(f"The machine that has the file answers {answer.status}, {answer.length} bytes.")
    return answer


def _checked_pieces(answer: HTTPResponse, digest: str) -> Iterator[bytes]:
    until = time.monotonic() + settings.MIRROR_TRANSFER_SECONDS
    found, held_back = hashlib.sha256(), b""
    while piece := answer.read(CHUNK_BYTES):
        if time.monotonic() > until:
            raise StorageError("The machine that has the file gives it too slowly.")
        found.update(piece)
        if held_back:
            yield held_back
        held_back = piece
    if found.hexdigest() != digest:
        raise StorageError("The machine that has the file gave other bytes.")
    yield held_back


def cut_pieces(pieces: Iterator[bytes], start: int, end: int) -> Iterator[bytes]:
    """Yields the bytes from `start` to before `end` of all pieces together."""
    place = 0
    for piece in pieces:
        if part := piece[max(0, start - place) : max(0, end - place)]:
            yield part
        place += len(piece)
