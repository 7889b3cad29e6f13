"""Rows of stored URLs, for tests."""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256

from resources.mirror.canonical.clearurls import parse_tracking_names
from resources.mirror.canonical.rules import UrlRules, build_learnt_rules, choose_shards
from resources.mirror.canonical.urls import canonicalise_url
from resources.mirror.models import DedupeStep, Resource, UrlState

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NONE_LEARNT = UrlRules(parse_tracking_names(())[0], choose_shards(())[0])


def store(
    url: str,
    gave: object = "",
    *,
    rules: UrlRules = NONE_LEARNT,
    state: UrlState = UrlState.STORED,
    at: datetime = NOON,
    step: DedupeStep = DedupeStep.CONTENT,
) -> Resource:
    """The row that storing the URL under these rules leaves behind."""
    found = canonicalise_url(url, rules)
    blob = blob_of(gave) if state is UrlState.STORED else ""
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


def learnt_parameter(host: str, name: str) -> UrlRules:
    return replace(NONE_LEARNT, learnt=build_learnt_rules((), ((host, name),))[0])
