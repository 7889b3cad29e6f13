"""Rows of stored URLs, for tests."""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

from resources.mirroring.canonical.rules import Rules, built_in, learnt
from resources.mirroring.canonical.urls import canonical
from resources.mirroring.knowing.models import Resource, State, Step

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NONE_LEARNT = built_in()


def store(
    url: str,
    gave: object = "",
    *,
    rules: Rules = NONE_LEARNT,
    state: State = State.STORED,
    at: datetime = NOON,
    step: Step = Step.CONTENT,
) -> Resource:
    """The row that storing the URL under these rules leaves behind."""
    found = canonical(url, rules)
    blob = blob_of(gave) if state is State.STORED else ""
    return Resource.objects.create(
        url_digest=found.digest,
        url=url,
        host=found.host,
        state=state,
        blob_digest=blob,
        step=step,
        wanted_at=at,
        fetched_at=at,
    )


def blob_of(gave: object) -> str:
    return sha256(str(gave).encode()).hexdigest()


def learnt_parameter(host: str, name: str) -> Rules:
    return replace(NONE_LEARNT, learnt=learnt((), ((host, name),))[0])
