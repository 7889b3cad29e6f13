"""A WebSub hub, by the W3C Recommendation: verifies, denies, delivers with signatures, forgets where it is told 410.

In threads, on loopback. It knows nothing of the code that it is a counterpart of.
"""

import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import requests

from .server import Handler, serving

WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The subscriber of a topic, and the secret that deliveries are signed with."""

    topic: str
    callback: str
    secret: str


@dataclass(slots=True)
class Hub:
    """`redirects`: the status of its redirects to its other address. `denies` is the reason, if it does.

    `grants` is its lease, in seconds, for any request; None grants the requested one.
    """

    url: str = ""
    redirects: int = 0
    denies: str = ""
    grants: int | None = None
    method: str = "sha256"
    asked: list[dict[str, str]] = field(default_factory=list)
    verified: list[int] = field(default_factory=list)
    known: dict[str, Subscriber] = field(default_factory=dict)
    threads: list[threading.Thread] = field(default_factory=list)

    def settle(self, form: dict[str, str]) -> None:
        """Validates and verifies a request (5.2, 5.3)."""
        if self.denies:
            said = {"hub.mode": "denied", "hub.topic": form["hub.topic"], "hub.reason": self.denies}
            requests.get(form["hub.callback"], params=said, timeout=WAIT_SECONDS)
            self.known.pop(form["hub.callback"], None)
            return
        lease = self.grants or int(form.get("hub.lease_seconds", "864000"))
        answer = self.verify(form["hub.callback"], form["hub.mode"], form["hub.topic"], lease)
        if answer.ok and form["hub.mode"] == "subscribe":
            known = Subscriber(form["hub.topic"], form["hub.callback"], form.get("hub.secret", ""))
            self.known[known.callback] = known
        elif answer.ok:
            self.known.pop(form["hub.callback"], None)

    def verify(self, callback: str, mode: str, topic: str, lease: int = 864000) -> requests.Response:
        """Asks the subscriber to confirm that. The answer counts only with the challenge."""
        challenge = secrets.token_hex(10)
        asked = {"hub.mode": mode, "hub.topic": topic, "hub.challenge": challenge, "hub.lease_seconds": str(lease)}
        answer = requests.get(callback, params=asked, timeout=WAIT_SECONDS)
        if answer.ok and answer.text != challenge:
            answer.status_code = 0
        self.verified.append(answer.status_code)
        return answer

    def deliver(self, topic: str, body: bytes, content_type: str = "application/rss+xml") -> list[int]:
        """Delivers the topic's news to all subscribers. Returns their answers. A 410 ends a subscription (7)."""
        found = []
        for known in [one for one in self.known.values() if one.topic == topic]:
            signed = {"X-Hub-Signature": signature(body, known.secret, self.method)} if known.secret else {}
            links = f'<{self.url}>; rel="hub", <{topic}>; rel="self"'
            headers = {"Content-Type": content_type, "Link": links, **signed}
            status = requests.post(known.callback, data=body, headers=headers, timeout=WAIT_SECONDS).status_code
            found.append(status)
            if status == 410:
                del self.known[known.callback]
        return found

    def only(self) -> Subscriber:
        """The one that there is when all requests so far are settled: the site knows that a moment before."""
        for thread in self.threads:
            thread.join(WAIT_SECONDS)
        (known,) = self.known.values()
        return known

    def links(self, itself: str) -> str:
        """The header field that names it in a feed's answer."""
        return f'Link: <{self.url}>; rel="hub", <{itself}>; rel="self"'

    def elements(self, itself: str) -> str:
        """The same in RSS."""
        atom = "xmlns:atom='http://www.w3.org/2005/Atom'"
        return f"<atom:link {atom} rel='hub' href='{self.url}'/><atom:link {atom} rel='self' href='{itself}'/>"


def signature(body: bytes, secret: str, method: str) -> str:
    return f"{method}={hmac.new(secret.encode(), body, getattr(hashlib, method)).hexdigest()}"


@contextmanager
def running() -> Iterator[Hub]:
    hub = Hub()
    with serving(_handler(hub)) as url:
        hub.url = f"{url}/hub"
        yield hub
        for thread in hub.threads:
            thread.join(WAIT_SECONDS)


def _handler(hub: Hub) -> type[Handler]:
    class Server(Handler):
        def do_POST(self) -> None:  # noqa: N802  as the library calls it
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if hub.redirects and self.path == "/hub":
                self.answer(hub.redirects, b"", Location=f"{hub.url}/elsewhere")
                return
            form = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
            hub.asked.append(form)
            self.answer(202, b"")
            hub.threads.append(threading.Thread(target=hub.settle, args=(form,)))
            hub.threads[-1].start()

    return Server
