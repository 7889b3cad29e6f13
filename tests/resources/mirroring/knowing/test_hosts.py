"""What a liar has vouched for is found, wherever it led, and nothing else is."""

import pytest

from resources.mirroring.knowing import hosts
from resources.mirroring.knowing.models import Resource, State, Step, Validator
from tests.resources.mirroring.rows import NOW, content, resource, url

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

LIAR = "liar.example:8080"


def stored(name: str, step: Step, gave: str, **fields: str) -> Resource:
    return resource(name, state=State.STORED, step=step, blob_digest=content(gave), due_at=None, **fields)


def test_all_that_rests_on_its_word_is_wanted_again_and_nothing_that_was_downloaded() -> None:
    stored("downloaded", Step.NEW, "one")
    stored("vouched", Step.VALIDATORS, "one", vouched_by=LIAR)
    stored("redirects there", Step.REDIRECT, "one")
    stored("under another key", Step.KNOWN, "two", vouched_by=LIAR)
    stored("of another", Step.VALIDATORS, "six", vouched_by="liar.example")
    Validator.objects.create(key="k", host=LIAR, blob_digest=content("one"), seen_at=NOW)

    assert hosts.distrust(LIAR, NOW) == 3
    wanted = Resource.objects.filter(state=State.WANTED, blob_digest="", vouched_by=None)
    assert {row.url for row in wanted} == {url(name) for name in ("vouched", "redirects there", "under another key")}
    assert not Validator.objects.exists()
    assert hosts.distrust(LIAR, NOW) == 0
