"""The header fields of answers with mirrored bytes. Does not give Content-Length. PURE."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from retry import headers

from ..contents.delivery import delivery
from .asking import BEGINNING

YEAR_SECONDS = 31_536_000


@dataclass(frozen=True, slots=True)
class Caching:
    """How long the client may keep an answer. Shared caches ask again within the hot window, whatever it is.

    So what is taken down, or changed, is gone from them within HOT_SECONDS, unless main cannot be asked; what clients
    have they keep.
    """

    is_for_good: bool

    def control(self, hot_seconds: float) -> str:
        window = headers.hot_window_seconds(hot_seconds)
        if not self.is_for_good:
            return headers.cache_control(window, window)
        return f"{headers.cache_control(YEAR_SECONDS, window)}, immutable"


BY_DIGEST, BY_URL = Caching(is_for_good=True), Caching(is_for_good=False)


def fields(media_type: str, digest: str, modified: datetime, caching: Caching, hot_seconds: float) -> Mapping[str, str]:
    """Of 200, 206 and 304. Nothing in them is the origin's word.

    nginx reads each of them anew for every hit: there are no more than are of use. Where it serves the file straight,
    it says the same by itself (project/served.py).
    """
    location = {} if caching.is_for_good else {"Content-Location": f"{BEGINNING}{digest}"}
    return {
        **delivery(media_type, digest),
        **location,
        "ETag": f'"{digest}"',
        "Last-Modified": headers.http_date(modified),
        "Cache-Control": caching.control(hot_seconds),
        "Cache-Status": "Tarry; hit; detail=stored",
        "Accept-Ranges": "bytes",
        **headers.CORS,
    }
