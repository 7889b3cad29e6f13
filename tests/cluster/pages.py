"""Requests to single hosts of a cluster, as clients of the balancer have them from there."""

from collections.abc import Mapping
from dataclasses import dataclass

import requests

from .hosts import Host

SECONDS = 30


@dataclass(frozen=True, slots=True)
class Caller:
    """A client with a token, at one host."""

    host: Host
    token: str

    def send(self, method: str, path: str, body: str = "", kind: str = "text/csv") -> requests.Response:
        fields = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        return requests.request(method, f"{self.host.base_url}{path}", data=body, headers=fields, timeout=SECONDS)


def get(host: Host, address: str, **fields: str) -> requests.Response:
    """The last answer of the host to a client that follows redirects."""
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return requests.get(f"{host.base_url}{address}", headers=named, timeout=SECONDS)


def is_content(host: Host, address: str, body: bytes) -> bool:
    answer = get(host, address)
    return answer.status_code == 200 and answer.content == body


def sign_in(host: Host, client: str, name: str, password: str) -> int:
    """Tries a password as that client; the status of the answer."""
    with requests.Session() as session:
        session.headers.update({"X-Forwarded-For": client})
        address = f"{host.base_url}/admin/login/"
        session.get(address, timeout=SECONDS)
        form: Mapping[str, str] = {"username": name, "password": password}
        form = {**form, "csrfmiddlewaretoken": session.cookies["csrftoken"]}
        headers = {"Referer": address}
        return session.post(address, form, headers=headers, timeout=SECONDS, allow_redirects=False).status_code
