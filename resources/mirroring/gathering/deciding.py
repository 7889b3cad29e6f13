"""What is done about a URL: its lane, whether its body can be spared, what a failure means for it. PURE."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from resources.fetching.outcomes import Failed, Failure

from .validators import Strength, Validator
from .work import Lane

LEAST_CONFIRMED_OPAQUE = 10
"""How often a host must have been right about opaque validators before one of them counts."""

LEAST_ASKED = 20.0
"""Bodies of late without which nobody knows how often validators spare one."""
ABANDONING: Mapping[Lane, float] = {"fast": 0.25, "large": 4.0}
"""What an abandoned body costs, in requests: a connection has to be made anew, and what is on its way is wasted (of
a large one as much as the buffers between hold). A small one comes with its head."""

_AT_ONCE = frozenset({Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.EXPIRED})


@dataclass(frozen=True, slots=True)
class Trust:
    """What is known of a host's validators. `confirmed` counts those that look like digests, and the others apart."""

    confirmed: int = 0
    confirmed_opaque: int = 0
    lies: int = 0


def believed(validators: Iterable[Validator], trust: Trust) -> list[str]:
    """The keys of those that count for this host."""
    if trust.lies:
        return []
    counts_opaque = trust.confirmed_opaque >= LEAST_CONFIRMED_OPAQUE
    return [one.key for one in validators if one.strength is Strength.DIGEST or counts_opaque]


def known_content(keys: Iterable[str], known: Mapping[str, str]) -> str | None:
    """The digest that all which are known agree on."""
    said = {known[key] for key in keys if key in known}
    return said.pop() if len(said) == 1 else None


def is_sampled(trust: Trust, *, first: int, every: int, luck: float) -> bool:
    """Whether a body is downloaded although it is known: while fewer than `first` were right, then one in `every`.

    `luck` is uniform in [0, 1).
    """
    return trust.confirmed + trust.confirmed_opaque < first or luck * every < 1


def asks_head_first(asked: float, spared: float, lane: Lane) -> bool:
    """Whether a HEAD before the GET pays, by how often validators spare a body of this host.

    With a share p of spared bodies and the cost c of an abandoned one, all in requests (each waits for its turn):
    HEAD first costs 1 + (1 - p), GET at once 1 + p·c. So it pays where p > 1 / (1 + c).
    """
    return asked >= LEAST_ASKED and spared / asked > 1 / (1 + ABANDONING[lane])


def is_final(failed: Failed, attempts: int, most_attempts: int) -> bool:
    """Whether a URL has failed for good, after so many attempts, this one included."""
    return (failed.failure in _AT_ONCE and not _has_led_to_expired(failed)) or attempts >= most_attempts


def failure_of(failed: Failed, *, is_signed: bool) -> Failure:
    """As what it is remembered. Origins that do not take a signature any more say 401 or 403: a new one may be."""
    if _has_led_to_expired(failed):
        return Failure.TRANSIENT
    return Failure.EXPIRED if is_signed and failed.status in {401, 403} else failed.failure


def _has_led_to_expired(failed: Failed) -> bool:
    """Whether it was redirected to a signature that has run out: the next time it may be to a newer one."""
    return failed.failure is Failure.EXPIRED and bool(failed.hops)


def status_of(failed: Failed) -> int:
    """What clients are told."""
    if failed.failure is Failure.TOO_SLOW:
        return 504
    return 404 if failed.status in {404, 410} else 502
