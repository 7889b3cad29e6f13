"""The front: asks nginx for content once, so that its hot cache has it before a crowd comes back."""

from urllib.parse import urlsplit

import aiohttp
from yarl import URL

TIMEOUT_SECONDS = 1.0


class Front:
    """A client of our own proxy, at `base`: an http URL, or `unix:` and the path of a socket."""

    def __init__(self, base: str) -> None:
        self._base = "http://front" if base.startswith("unix:") else base.rstrip("/")
        connector = aiohttp.UnixConnector(base.removeprefix("unix:")) if base.startswith("unix:") else None
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)

    async def fill(self, host: str, address: str) -> bool:
        """Asks for the address as a client of that host would; whether the proxy can answer it by itself now."""
        parts = urlsplit(address)
        path = parts._replace(scheme="", netloc="").geturl()
        url = URL(f"{self._base}{path}", encoded=True)
        headers = {"Host": parts.netloc or host, "Accept-Encoding": "identity"}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                await response.read()
                return response.status == 200 and "no-store" not in response.headers.get("Cache-Control", "no-store")
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def close(self) -> None:
        await self._session.close()
