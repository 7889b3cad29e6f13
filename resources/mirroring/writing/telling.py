"""Why a URL has failed, in words that anybody may read. Rows keep what happened, for admins."""

from collections.abc import Mapping

from resources.fetching.outcomes import Failure

from . import blocking

IN_PLACE: Mapping[str, str] = {
    Failure.OURS.value: "This site cannot reach the origin.",
    Failure.REFUSED.value: "This is an address that this site does not fetch from.",
    blocking.FAILURE: "This site mirrors nothing from that host.",
}
"""Of these failures, in place of what rows say: that may name addresses of a private network."""


def told(failure: str, detail: str) -> str:
    """A sentence, or what the origin said; empty for no failure."""
    return IN_PLACE.get(failure, detail)
