"""A subscriber of WebSub and rssCloud, by their descriptions: confirms, checks signatures; or answers as none should.

In threads, on loopback. It knows nothing of the code that it is a counterpart of.
"""

import hashlib
import hmac
import threading
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import parse_qsl, urlsplit

import requests

from .server import Handler, serving

WAIT_SECONDS = 10.0
HUGE_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class Delivered:
    """A request to the callback that was no question."""

    path: str
    body: bytes
    headers: Message

    def is_signed_with(self, secret: str) -> bool:
        method, _, signature = str(self.headers["X-Hub-Signature"]).partition("=")
        return hmac.compare_digest(
            hmac.new(secret.encode(), self.body, getattr(hashlib, method)).hexdigest(), signature
        )

    @property
    def pinged_url(self) -> str:
        """The topic that a cloud's ping names, by form or by XML-RPC."""
        if self.headers["Content-Type"] == "text/xml":
            return str(xmlrpc.client.loads(self.body)[0][0])
        return dict(parse_qsl(self.body.decode()))["url"]


@dataclass(slots=True)
class CallbackSite:
    """`mood` is its manner to answer: `well`, `silent`, `broken`, `gone`, `huge`, `redirects`, `otherwise`.

    `wants`: it confirms what it is asked. `released` ends its silence.
    """

    url: str = ""
    mood: str = "well"
    wants: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)
    delivered: list[Delivered] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def callback(self) -> str:
        return f"{self.url}/callback?of=them"

    def subscribe(self, hub: str, topic: str, mode: str = "subscribe", **fields: str) -> requests.Response:
        """Asks a hub for it, as WebSub has it (5.1)."""
        form = {"hub.mode": mode, "hub.topic": topic, "hub.callback": self.callback}
        named = {f"hub.{name}": value for name, value in fields.items()}
        return requests.post(hub, data={**form, **named}, timeout=WAIT_SECONDS)

    def register(
        self, cloud: str, topic: str, *, protocol: str = "http-post", domain: bool = True
    ) -> requests.Response:
        """Asks a cloud for it, by form."""
        at = urlsplit(self.url)
        form = {"port": str(at.port), "path": "/ping", "protocol": protocol, "url1": topic, "notifyProcedure": "told"}
        named = {"domain": str(at.hostname)} if domain else {}
        return requests.post(cloud, data={**form, **named}, timeout=WAIT_SECONDS)


@contextmanager
def running() -> Iterator[CallbackSite]:
    site = CallbackSite()
    with serving(_handler(site)) as site.url:
        yield site
        site.released.set()


def _handler(site: CallbackSite) -> type[Handler]:
    class Server(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            asked = dict(parse_qsl(urlsplit(self.path).query))
            site.asked.append(asked)
            self.reply((asked.get("hub.challenge") or asked.get("challenge", "")).encode())

        def do_POST(self) -> None:  # noqa: N802
            body = self.rfile.read(int(self.headers["Content-Length"]))
            site.delivered.append(Delivered(self.path, body, self.headers))
            accepted = xmlrpc.client.dumps((True,), methodresponse=True).encode()
            self.reply(accepted if self.headers["Content-Type"] == "text/xml" else b"")

        def reply(self, right: bytes) -> None:
            match site.mood:
                case "silent":
                    site.released.wait(WAIT_SECONDS)
                    self.close_connection = True
                case "broken":
                    self.answer(500, b"")
                case "gone":
                    self.answer(410, b"")
                case "huge":
                    self.answer(200, right + b" " * HUGE_BYTES)
                case "redirects":
                    self.answer(307, b"", Location=f"{site.url}/elsewhere")
                case "otherwise":
                    self.answer(200, b"another challenge")
                case _:
                    self.answer(200 if site.wants else 404, right if site.wants else b"")

    return Server
