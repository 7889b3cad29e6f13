"""The way of a fetch through redirects: where it goes next, and what it carries there. PURE."""

from dataclasses import dataclass, replace

from multidict import CIMultiDict

from ..errors import FetchError
from ..outcomes import Failure
from ..requests import Fetch
from . import targets
from .targets import Target

REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Route:
    """Where a fetch stands. `at_home` as long as it has never left the origin that was asked first.

    Headers of the asker go along only at home: whoever it was sent to elsewhere may send it back to any
    address of home. `visited` are the methods and addresses that were asked before.
    """

    fetch: Fetch
    target: Target
    method: str
    body: bytes
    at_home: bool = True
    visited: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def begin(cls, fetch: Fetch) -> "Route":
        """The first step. Raises FetchError for an address that is not fetched."""
        return cls(fetch, targets.parse(fetch.url), fetch.method, fetch.body)

    def after(self, status: int, location: str | None, *, allow_downgrade: bool) -> "Route":
        """The next step, by an answer that redirects (RFC 9110, 15.4). Raises FetchError.

        A body may have a secret in it: what went out over TLS never goes on without.
        """
        method, body = self.method, self.body
        if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
            method, body = "GET", b""
        target = targets.next_target(self.target, location, allow_downgrade=allow_downgrade and not body)
        visited = self.visited | {(self.method, self.target.url)}
        if (method, target.url) in visited:
            raise FetchError(Failure.PERMANENT, "redirects in a circle")
        if len(visited) > self.fetch.limits.max_redirects:
            raise FetchError(Failure.PERMANENT, f"more than {self.fetch.limits.max_redirects} redirects")
        at_home = self.at_home and target.origin == self.target.origin
        return replace(self, target=target, method=method, body=body, at_home=at_home, visited=visited)

    def headers(self) -> CIMultiDict[str]:
        """The header fields of this step's request, those of every request apart."""
        given = self.fetch.headers
        if not self.at_home:  # the type of a body goes wherever the body goes
            given = {name: value for name, value in given.items() if self.body and name.lower() == "content-type"}
        fields = CIMultiDict(given)
        if self.sends_validators:
            if self.fetch.etag is not None:
                fields["If-None-Match"] = self.fetch.etag
            if self.fetch.last_modified is not None:
                fields["If-Modified-Since"] = self.fetch.last_modified
        return fields

    @property
    def sends_validators(self) -> bool:
        """Whether this step asks the origin that gave the validators: to others they mean something else."""
        if not self.fetch.is_conditional or self.method == "POST":
            return False
        if self.fetch.validated_url is None:
            return self.at_home
        try:
            return targets.parse(self.fetch.validated_url, max_bytes=targets.MAX_HOP_BYTES).origin == self.target.origin
        except FetchError:
            return False

    @property
    def wants_part(self) -> bool:
        """Whether a part of something was asked for."""
        return any(name.lower() == "range" for name in self.fetch.headers)
