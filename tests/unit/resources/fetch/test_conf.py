"""The settings of fetching: read as they stand, and refused where they contradict each other."""

from typing import Any

import pytest
from pytest_django import Settings

from resources.fetch import checks, conf, task


def test_what_is_set_by_default_has_no_errors() -> None:
    assert checks.check_fetching(None) == []


class Half:
    """A task that is none."""

    obeys_robots = "yes"

    def fetch(self) -> None: ...


HALF = Half()
PUBLISHER = "resources.fetch.dispatch.publish"

BAD: dict[str, dict[str, Any]] = {
    "fetching.E001": {"FETCH_ALLOW_PRIVATE": ["10.1.0.0/16", "localhost"]},
    "fetching.E002": {"FETCH_PORTS": ["80", "70000"]},
    "fetching.E003": {"FETCH_CONTACT": "me (at home)\r\nX: y"},
    "fetching.E004": {"FETCH_CONNECT_SECONDS": 30.0},
    "fetching.E005": {"FETCH_HEAD_SECONDS": 31.0},
    "fetching.E006": {"FETCH_SLOW_DEADLINE_SECONDS": 29.0},
    "fetching.E007": {"FETCH_TIMINGS_DAYS": 10**17},
    "fetching.E009": {"FETCH_EGRESS": ["a=somewhere"]},
    "fetching.E008": {"FETCH_SLOW_AFTER_SECONDS": 31.0},
    "fetching.E012": {"FETCH_MAX_IN_FLIGHT": 1},
    "fetching.E013": {"FETCH_MAX_PER_SECOND": 1.9},
    "fetching.E010": {"FETCH_TASKS": {"a": "no.such.TASK"}},
    "fetching.E011": {"RETRY_LANES": {"fetch.soon": {"publisher": PUBLISHER}, "fetch.fast": {"publisher": PUBLISHER}}},
}


@pytest.mark.parametrize(("id_", "given"), BAD.items())
def test_contradictions_are_errors(id_: str, given: dict[str, Any], settings: Settings) -> None:
    for name, value in given.items():
        setattr(settings, name, value)
    assert [message.id for message in checks.check_fetching(None)] == [id_]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no.such.TASK", "cannot be imported: "),
        ("nowhere", "cannot be imported: "),
        (f"{__name__}.NONE", "cannot be imported: "),
        (f"{__name__}.Half", "is a class, not an object of it."),
        (f"{__name__}.HALF", "has no prepare, no obeys_robots."),
    ],
)
def test_a_task_that_is_none_is_an_error_that_says_what_it_lacks(path: str, said: str, settings: Settings) -> None:
    settings.FETCH_TASKS = {"a.task": path}
    [error] = checks.check_fetching(None)
    assert error.id == "fetching.E010"
    assert f": a.task {said}" in error.msg


def test_secrets_go_with_tasks_whose_urls_an_admin_chooses_and_no_others(settings: Settings) -> None:
    trusted = {name for name in settings.FETCH_TASKS if task.sends_secrets(conf.find_task(name))}
    assert trusted == {"feeds.announce", "resources.fetch_tile"}


def test_lanes_of_other_publishers_may_have_any_name(settings: Settings) -> None:
    settings.RETRY_LANES = {
        "fetch.soon": {"publisher": "no.such.publisher"},
        "a": {"publisher": f"{__name__}.HALF"},
        "b": {},
    }
    assert checks.check_fetching(None) == []


def test_the_policy_is_that_of_the_settings(settings: Settings) -> None:
    settings.FETCH_ALLOW_PRIVATE = ["10.1.0.0/16", " 127.0.0.1:9000"]
    settings.FETCH_PORTS = ["80"]
    guard = conf.fetch_policy().guard
    assert guard.refusal("10.1.2.3", 5000) is None
    assert guard.refusal("127.0.0.1", 9000) is None
    assert guard.refusal("93.184.216.34", 443)


def test_the_user_agent_names_the_contact_or_else_the_site(settings: Settings) -> None:
    settings.PUBLIC_URL = "https://tarry.example"
    assert conf.fetch_policy().user_agent == "Tarry/0.1 (+https://tarry.example)"
    settings.FETCH_CONTACT = "ops@tarry.example"
    assert conf.fetch_policy().user_agent == "Tarry/0.1 (+ops@tarry.example)"
