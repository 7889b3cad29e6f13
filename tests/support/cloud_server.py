"""A server of rssCloud, by the interface's description: registers, verifies, notifies, forgets after 25 hours.

In threads, on loopback. It knows nothing of the code that it is a counterpart of.
"""

import secrets
import xmlrpc.client
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs
from xml.sax.saxutils import quoteattr

import requests

from .server import Handler, serving

LEASE = timedelta(hours=25)
WAIT_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The address and the protocol of its pings."""

    url: str
    protocol: str
    procedure: str


class UnwillingError(Exception):
    """Why a registration is refused."""


@dataclass(slots=True)
class Cloud:
    """The subscribers of each feed, and the ends of their registrations. `refuses` is its answer to them, if any."""

    url: str = ""
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    refuses: str = ""
    wants_domain: bool = True
    speaks_json: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)
    registered: dict[tuple[str, Subscriber], datetime] = field(default_factory=dict)

    def register(self, urls: Sequence[str], who: Subscriber, *, named: bool) -> None:
        """A subscriber that names its domain is verified by a challenge. Raises UnwillingError."""
        if self.refuses:
            raise UnwillingError(self.refuses)
        if named and not self.wants_domain:
            raise UnwillingError("This server calls back the address that asks.")
        for url in urls:
            if named:
                _challenge(who, url)
            elif not notify(who, url):
                raise UnwillingError("The test notification was not taken.")
            self.registered[url, who] = self.now()

    def subscribers(self, url: str) -> list[Subscriber]:
        """The registrations that have not been forgotten."""
        return [who for (known, who), since in self.registered.items() if known == url and self.now() - since < LEASE]

    def ping(self, url: str) -> list[bool]:
        """Tells all subscribers that a feed has changed. Returns for each whether it took that."""
        return [notify(who, url) for who in self.subscribers(url)]


def _subscriber(host: str, *told: object) -> Subscriber:
    """The target of its pings: port, path, protocol, procedure."""
    port, path, protocol, procedure = map(str, told)
    scheme = "https" if protocol == "https-post" else "http"
    return Subscriber(f"{scheme}://{host}:{port}{path}", protocol, procedure)


def notify(who: Subscriber, url: str) -> bool:
    if who.protocol == "xml-rpc":
        call = xmlrpc.client.dumps((url,), who.procedure)
        answer = requests.post(who.url, data=call, headers={"Content-Type": "text/xml"}, timeout=WAIT_SECONDS)
        return answer.ok and xmlrpc.client.loads(answer.content)[0] == (True,)
    return requests.post(who.url, data={"url": url}, timeout=WAIT_SECONDS).ok


def _challenge(who: Subscriber, url: str) -> None:
    challenge = secrets.token_hex(10)
    answer = requests.get(who.url, params={"url": url, "challenge": challenge}, timeout=WAIT_SECONDS)
    if not answer.ok or answer.text != challenge:
        raise UnwillingError("The subscriber did not answer the challenge.")


@contextmanager
def running(now: Callable[[], datetime] | None = None) -> Iterator[Cloud]:
    cloud = Cloud() if now is None else Cloud(now=now)
    with serving(_handler(cloud)) as url:
        cloud.url = url
        yield cloud


def element(cloud: Cloud, protocol: str = "http-post") -> str:
    """The element by which a feed names it."""
    host, _, port = cloud.url.removeprefix("http://").partition(":")
    path, procedure = ("/RPC2", "rssCloud.pleaseNotify") if protocol == "xml-rpc" else ("/pleaseNotify", "")
    named = {"domain": host, "port": port, "path": path, "registerProcedure": procedure, "protocol": protocol}
    return f"<cloud {' '.join(f'{name}={quoteattr(value)}' for name, value in named.items())}/>"


def _handler(cloud: Cloud) -> type[Handler]:
    class Server(Handler):
        def do_POST(self) -> None:  # noqa: N802  as the library calls it
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/RPC2":
                self.answer(200, self._called(body), Content_Type="text/xml")
                return
            given = {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
            cloud.asked.append(given)
            self.answer(200, *self._asked(given))

        def _asked(self, given: dict[str, str]) -> tuple[bytes]:
            urls = [value for name, value in given.items() if name.startswith("url")]
            named, host = "domain" in given, given.get("domain") or self.client_address[0]
            try:
                who = _subscriber(host, given["port"], given["path"], given["protocol"], given["notifyProcedure"])
                cloud.register(urls, who, named=named)
            except (UnwillingError, requests.RequestException, KeyError) as error:
                return (_result(cloud, False, str(error)),)
            return (_result(cloud, True, "Thanks for the registration."),)

        def _called(self, body: bytes) -> bytes:
            given, _ = xmlrpc.client.loads(body)
            procedure, port, path, protocol, urls, *domain = given
            cloud.asked.append({"protocol": str(protocol), "path": str(path)})
            host = str(domain[0]) if domain else str(self.client_address[0])
            try:
                cloud.register(urls, _subscriber(host, port, path, protocol, procedure), named=bool(domain))  # type: ignore
            except (UnwillingError, requests.RequestException) as error:
                return xmlrpc.client.dumps(xmlrpc.client.Fault(4, str(error))).encode()
            return xmlrpc.client.dumps((True,), methodresponse=True).encode()

    return Server


def _result(cloud: Cloud, success: bool, why: str) -> bytes:
    if cloud.speaks_json:
        return f'{{"success": {"true" if success else "false"}, "msg": "{why}"}}'.encode()
    return f'<?xml version="1.0"?>\n<notifyResult success="{str(success).lower()}" msg={quoteattr(why)}/>'.encode()
