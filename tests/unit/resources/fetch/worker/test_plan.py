"""Jobs with several waiters."""

from collections.abc import Mapping

import pytest
from pytest_django import Settings

from resources.fetch.http.messages import FetchRequest
from resources.fetch.task import TaskCall
from resources.fetch.worker import attempt
from retry.contents import Prepared
from retry.work import Argument

URL = "https://a.example.com/1"


class Revalidating:
    """A task that has something already."""

    obeys_robots = False

    def fetch(self, *arguments: Argument) -> FetchRequest:
        return FetchRequest(str(arguments[0]), etag='"1"', last_modified="yesterday", headers={"Accept": "image/*"})


TASK = Revalidating()
THERE = Prepared(b"there", "text/plain", 60, 600)


class There:
    """A task whose content another process has prepared."""

    obeys_robots = False

    def fetch(self, *arguments: Argument) -> Mapping[str, Prepared]:
        return {f"content:{arguments[1]}": THERE}


SETTLED = There()


@pytest.fixture(autouse=True)
def _known(pages: None, settings: Settings) -> None:
    settings.FETCH_TASKS = {
        **settings.FETCH_TASKS,
        "tests.revalidating": f"{__name__}.TASK",
        "tests.there": f"{__name__}.SETTLED",
    }


def call(task: str, name: str = "one") -> TaskCall:
    return TaskCall(task, name, 1, (URL, name))


def test_who_is_alone_asks_whether_it_has_changed() -> None:
    plan = attempt.plan_request([call("tests.revalidating")])
    assert plan.fetch
    assert (plan.fetch.etag, plan.fetch.last_modified, plan.impossible) == ('"1"', "yesterday", {})
    assert plan.fetch.headers == {"Accept": "image/*", "X-Host": "a.example.com"}


def test_what_is_not_modified_for_one_may_be_new_to_another() -> None:
    fetch = attempt.plan_request([call("tests.revalidating"), call("tests.page", "two")]).fetch
    assert fetch
    assert not fetch.is_conditional


def test_what_is_there_by_now_is_not_asked_for() -> None:
    plan = attempt.plan_request([call("tests.there")])
    assert plan.fetch is None
    assert plan.done == {call("tests.there"): {"content:one": THERE}}
