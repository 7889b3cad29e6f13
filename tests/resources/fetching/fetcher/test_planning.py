"""What is asked for on behalf of several."""

import pytest
from pytest_django import Settings

from resources.fetching.errands import Errand
from resources.fetching.fetcher import planning
from resources.fetching.requests import Fetch
from retry.work import Argument

URL = "https://a.example.com/1"


class Revalidating:
    """A task that has something already."""

    obeys_robots = False

    def fetch(self, *arguments: Argument) -> Fetch:
        return Fetch(str(arguments[0]), etag='"1"', last_modified="yesterday", headers={"Accept": "image/*"})


TASK = Revalidating()


@pytest.fixture(autouse=True)
def _known(pages: None, settings: Settings) -> None:
    settings.FETCH_TASKS = {**settings.FETCH_TASKS, "tests.revalidating": f"{__name__}.TASK"}


def errand(task: str, name: str = "one") -> Errand:
    return Errand(task, name, 1, (URL, name))


def test_who_is_alone_asks_whether_it_has_changed() -> None:
    found = planning.plan([errand("tests.revalidating")])
    assert found.fetch
    assert (found.fetch.etag, found.fetch.last_modified, found.impossible) == ('"1"', "yesterday", {})
    assert found.fetch.headers == {"Accept": "image/*", "X-Host": "a.example.com"}


def test_what_is_not_modified_for_one_may_be_new_to_another() -> None:
    found = planning.plan([errand("tests.revalidating"), errand("tests.page", "two")])
    assert found.fetch
    assert not found.fetch.is_conditional
