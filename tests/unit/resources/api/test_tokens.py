"""Tokens of the API: issue, scope, rate limit and revocation."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from resources.tiles.models import Layer
from resources.tokens import auth
from resources.tokens.models import ApiToken
from tests.conftest import RedisServers

from .conftest import Caller, problem

NOW = datetime(2026, 11, 21, 10, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "field",
    ["", "Bearer", "Bearer ", "Bearer x", "Bearer tarry_" + "a" * 43, "Basic {token}", "{token}", "Bearer {token}x",
     "Bearer é", "Bearer " + "a" * 5000],
)  # fmt: skip
def test_without_a_token_in_force_the_answer_is_401(layer: Layer, caller: Caller, stranger: Caller, field: str) -> None:
    answer = stranger.post("/api/layers/jams/speeds", b"x", Authorization=field.format(token=caller.token))
    assert "Bearer" in problem(answer, 401)
    assert answer["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("spelling", ["Bearer {}", "bearer {}", "Bearer  {}", "BEARER {} "])
def test_the_scheme_is_read_as_servers_do(layer: Layer, caller: Caller, stranger: Caller, spelling: str) -> None:
    answer = stranger.post("/api/layers/jams/expire", b"", "", Authorization=spelling.format(caller.token))
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "change", [{"enabled": False}, {"expires_at": datetime.now(UTC) - timedelta(seconds=1)}], ids=["off", "expired"]
)
def test_a_token_that_is_no_longer_in_force_is_refused(layer: Layer, caller: Caller, change: dict[str, Any]) -> None:
    ApiToken.objects.update(**change)
    problem(caller.send("north,1,50"), 401)


CALLS: dict[str, Callable[[Caller], Any]] = {
    "layers": lambda caller: caller.post("/api/layers/jams/expire", b"", ""),
    "may_mirror": lambda caller: caller.post("/api/signed-urls", b'["https://example.org/a"]', "application/json"),
    "may_take_down": lambda caller: caller.delete(f"/api/resources/{'ab' * 32}"),
    "may_manage_feeds": lambda caller: caller.post("/api/feeds/nothing/fetch"),
}
"""For each right, a call that needs it."""


@pytest.mark.parametrize("right", CALLS)
def test_a_token_has_only_the_right_that_it_was_given(layer: Layer, right: str) -> None:
    given: dict[str, Any] = {right: "*" if right == "layers" else True}
    caller = Caller(auth.issue_token(ApiToken(name="one", **given)).text)
    assert [name for name, call in CALLS.items() if call(caller).status_code != 403] == [right]


def test_tokens_from_before_keep_what_they_were_issued_for(db: None) -> None:
    migration = import_module("resources.migrations.0013_rights_and_old_rows")
    ann = User.objects.create(username="ann")
    rights: dict[str, dict[str, Any]] = {
        **{"all": {}, "some": {"layers": "trams"}, "files": {"may_mirror": True}},
        **{"feeds": {"may_manage_feeds": True}, "ann": {"user": ann}},
    }
    ApiToken.objects.bulk_create(ApiToken(name=name, **fields) for name, fields in rights.items())
    migration.name_all_layers(apps, None)
    after = dict(ApiToken.objects.values_list("name", "layers"))
    assert after == {"all": "*", "some": "trams", "files": "", "feeds": "", "ann": ""}
    migration.name_no_layers(apps, None)
    assert ApiToken.objects.get(name="all").layers == ""


def test_a_token_for_some_layers_may_not_change_others(layer: Layer, caller: Caller) -> None:
    ApiToken.objects.update(layers="trams buses")
    assert "“jams”" in problem(caller.send("north,1,50"), 403)
    assert "nowhere" in problem(caller.send("north,1,50", slug="nowhere"), 403)
    problem(caller.post("/api/layers/jams/expire", b"", ""), 403)
    ApiToken.objects.update(layers="trams jams")
    assert caller.send("north,1,50").status_code == 200


def test_the_token_itself_is_not_kept(db: None) -> None:
    issued = auth.issue_token(ApiToken(name="sensors", layers="*"))
    row = ApiToken.objects.values().get()
    assert issued.text not in str(row)
    assert issued.text.startswith(row["prefix"])
    assert len(issued.text) - len(row["prefix"]) >= 30


def test_two_tokens_that_begin_alike_are_told_apart(db: None) -> None:
    first, second = (auth.issue_token(ApiToken(name=name, layers="*")) for name in ("first", "second"))
    ApiToken.objects.update(prefix=second.text[: auth.PREFIX_LENGTH])
    assert auth.find_token(second.text, NOW) == second.row
    assert auth.find_token(first.text, NOW) is None


def test_the_last_use_is_noted_at_most_once_a_minute(layer: Layer, caller: Caller) -> None:
    caller.send("north,1,50")
    first = ApiToken.objects.get().last_used_at
    caller.send("north,2,50")
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first
    ApiToken.objects.update(last_used_at=first - timedelta(minutes=1, seconds=1))
    caller.send("north,3,50")
    noted = ApiToken.objects.get().last_used_at
    assert noted is not None
    assert noted > first


def test_a_token_that_is_used_too_often_is_told_when_to_come_again(layer: Layer, caller: Caller, settings: Any) -> None:
    settings.API_CALLS_PER_MINUTE = 2
    statuses = [caller.send("north,1,50").status_code for _ in range(6)]
    assert statuses[:2] == [200, 200]
    assert 429 in statuses[2:]  # the minute of the clock may have changed meanwhile
    while (answer := caller.send("north,1,50")).status_code != 429:
        pass
    assert "too often" in problem(answer, 429)
    assert 1 <= int(answer["Retry-After"]) <= 60


def test_calls_are_counted_by_token_and_minute_without_the_cache(redis_servers: RedisServers, settings: Any) -> None:
    settings.API_CALLS_PER_MINUTE = 0
    moment = NOW.timestamp()
    assert auth.seconds_to_wait(1, moment) == 0
    assert redis_servers.state.client.keys("api:*") == []
    settings.API_CALLS_PER_MINUTE = 2
    for expected in (0, 0, 30, 30):
        assert auth.seconds_to_wait(1, moment) == expected
        redis_servers.cache.client.flushall()
    assert auth.seconds_to_wait(2, moment) == 0
    assert auth.seconds_to_wait(1, moment + 30) == 0
    assert all(0 < redis_servers.state.client.ttl(key) <= 60 for key in redis_servers.state.client.keys("api:*"))


def test_uncounted_calls_are_answered(layer: Layer, caller: Caller, redis_servers: RedisServers, settings: Any) -> None:
    settings.API_CALLS_PER_MINUTE = 1
    redis_servers.state.stop()
    assert [caller.send("north,1,50").status_code for _ in range(3)] == [200, 200, 200]


def test_calls_are_answered_while_state_is_full(redis_servers: RedisServers, settings: Any) -> None:
    settings.API_CALLS_PER_MINUTE = 1
    redis_servers.state.client.config_set("maxmemory", "1")
    try:
        assert [auth.seconds_to_wait(1, NOW.timestamp()) for _ in range(3)] == [0, 0, 0]
    finally:
        redis_servers.state.client.config_set("maxmemory", "0")


def test_the_admin_shows_a_new_token_once(admin_client: Client, layer: Layer) -> None:
    form = {"name": "sensors", "layers": "jams", "enabled": "on", "expires_at_0": "", "expires_at_1": ""}
    answer = admin_client.post("/admin/resources/apitoken/add/", form)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    shown = answer.context["token"]
    assert shown in answer.content.decode()
    assert "may change the layers jams." in answer.content.decode()
    assert shown not in "".join(morsel.value for morsel in answer.cookies.values())
    assert Caller(shown).send("north,1,50").status_code == 200
    page = admin_client.get(f"/admin/resources/apitoken/{ApiToken.objects.get().pk}/change/").content.decode()
    assert shown not in page
    assert shown[: auth.PREFIX_LENGTH] in page


def test_a_token_is_changed_in_the_admin_without_a_new_text(admin_client: Client, layer: Layer, caller: Caller) -> None:
    row = ApiToken.objects.get()
    form = {"name": "sensors", "layers": "*", "expires_at_0": "", "expires_at_1": ""}
    assert admin_client.post(f"/admin/resources/apitoken/{row.pk}/change/", form).status_code == 302
    problem(caller.send("north,1,50"), 401)
    saved = admin_client.post(f"/admin/resources/apitoken/{row.pk}/change/", {**form, "enabled": "on"}, follow=True)
    assert "The token “sensors” may change all layers." in saved.content.decode()
    assert caller.send("north,1,50").status_code == 200


def test_bad_settings_of_a_token_are_told_in_the_admin(admin_client: Client) -> None:
    answer = admin_client.post("/admin/resources/apitoken/add/", {"name": "a", "layers": "Big Jams"})
    assert "Slugs" in str(answer.context["adminform"].form.errors["layers"])
    answer = admin_client.post("/admin/resources/apitoken/add/", {"name": "a"})
    assert "needs a right" in str(answer.context["adminform"].form.errors["layers"])


def test_a_token_is_issued_on_the_command_line(layer: Layer) -> None:
    out, told = StringIO(), StringIO()
    call_command("create_token", "sensors", "--layers", "jams", "--mirror", "--days", "7", stdout=out, stderr=told)
    assert told.getvalue() == "The token “sensors” may change the layers jams and mirror files.\n"
    assert Caller(out.getvalue().strip()).send("north,1,50").status_code == 200
    row = ApiToken.objects.get()
    assert (row.layers, row.may_mirror, row.may_take_down) == ("jams", True, False)
    assert row.expires_at is not None
    assert timedelta(days=6.9) < row.expires_at - datetime.now(UTC) < timedelta(days=7.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["sensors"], "already exists"), (["b", "--layers", "Big"], "Slugs"), (["b", "--layers", "*", "jams"], "Slugs"),
     (["b"], "needs a right.*No token was issued"), (["b", "--days", "0"], "--days"),
     (["b", "--days", "nan"], "--days"), ([""], "blank"), (["b", "--user", "nobody"], "no user")],
)  # fmt: skip
def test_a_token_that_cannot_be_issued_is_told(caller: Caller, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("create_token", *arguments)
    assert ApiToken.objects.count() == 1
