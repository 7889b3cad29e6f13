"""Scripts of other apps: registered under a namespace, with the parts that they need."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from uuid import uuid4

import pytest
from pytest_django import Settings

from retry import scripts, stores
from retry.errors import StoreUnavailable
from retry.scripts import ScriptCall
from tests.conftest import RedisServers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.lua").write_text("local one = 1\n")
    (tmp_path / "parts" / "two.lua").write_text("local two = one + 1\n")
    (tmp_path / "sum.lua").write_text("-- Adds.\n-- needs: one two\nreturn one + two\n")
    (tmp_path / "look.lua").write_text("return 'another look'\n")
    return tmp_path


@pytest.mark.usefixtures("servers")
def test_a_registered_script_runs_with_the_parts_it_needs_in_their_order(folder: Path) -> None:
    of_the_protocol = "-- needs: one retry.root retry.claim_start\nreturn start_work('work:none', '1', 'x', {}) + one\n"
    (folder / "two.lua").write_text(of_the_protocol)
    scripts.register_scripts(folder, "tests")
    assert stores.execute_call(ScriptCall("state", "tests.two", ["retry:{0}"])) == 1
    assert stores.execute_call(ScriptCall("state", "tests.sum", [])) == 3
    assert stores.execute_call(ScriptCall("state", "tests.sum", [])) == 3  # by its digest


def test_a_namespace_keeps_scripts_of_one_name_apart(folder: Path) -> None:
    before = ScriptCall("state", "look", []).by_text()
    scripts.register_scripts(folder, "tests")
    assert ScriptCall("state", "look", []).by_text() == before
    assert ScriptCall("state", "tests.look", []).by_text()[1] == "return 'another look'\n"


def test_a_script_that_needs_a_part_which_is_not_there_is_refused(folder: Path) -> None:
    (folder / "sum.lua").write_text("-- needs: three\nreturn three\n")
    with pytest.raises(KeyError, match="three"):
        scripts.register_scripts(folder, "tests")


@pytest.fixture
def counted_and_new(folder: Path) -> list[ScriptCall]:
    """A script that the server knows, which counts its runs, and one that it does not know yet."""
    (folder / "count.lua").write_text("return redis.call('INCR', 'runs')\n")
    (folder / "new.lua").write_text(f"return '{uuid4().hex}'\n")
    scripts.register_scripts(folder, "tests")
    count, new = ScriptCall("state", "tests.count", []), ScriptCall("state", "tests.new", [])
    assert stores.execute_call(count) == 1
    return [count, new, count]


async def execute_all(calls: list[ScriptCall]) -> list[object]:
    async with aclosing(stores.async_client("state")) as client:
        return list(await stores.execute_all(client, "state", calls))


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.usefixtures("servers")
def test_a_script_that_the_server_does_not_know_runs_no_other_twice(
    counted_and_new: list[ScriptCall], in_loop: bool
) -> None:
    first, new, second = (
        asyncio.run(execute_all(counted_and_new)) if in_loop else stores.execute_all_patiently("state", counted_and_new)
    )
    assert (first, second) == (2, 3)
    assert isinstance(new, bytes)


@pytest.mark.usefixtures("servers")
def test_a_call_that_is_refused_takes_no_other_along(folder: Path, counted_and_new: list[ScriptCall]) -> None:
    (folder / "refused.lua").write_text("return redis.error_reply('no room')\n")
    scripts.register_scripts(folder, "tests")
    refused = ScriptCall("state", "tests.refused", [])
    first, error, second = asyncio.run(execute_all([counted_and_new[0], refused, counted_and_new[0]]))
    assert (first, second) == (2, 3)
    assert isinstance(error, StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        asyncio.run(execute_all([refused]))
    stores.BREAKERS["state"].succeeded()


def test_a_server_that_does_not_answer_in_time_is_given_up_and_its_late_replies_are_dropped(
    servers: RedisServers, folder: Path, settings: Settings
) -> None:
    settings.RETRY_REDIS_TIMEOUT = 0.3
    (folder / "echo.lua").write_text("return ARGV[1]\n")
    scripts.register_scripts(folder, "tests")

    async def replies() -> list[object]:
        async with aclosing(stores.async_client("state")) as client:
            await stores.execute_all(client, "state", [ScriptCall("state", "tests.echo", [], ["before"])])
            servers.state.client.client_pause(1000)
            with pytest.raises(StoreUnavailable, match="no reply in time"):
                await stores.execute_all(client, "state", [ScriptCall("state", "tests.echo", [], ["late"])])
            servers.state.client.client_unpause()
            stores.BREAKERS["state"].succeeded()
            return list(await stores.execute_all(client, "state", [ScriptCall("state", "tests.echo", [], ["after"])]))

    assert asyncio.run(replies()) == [b"after"]
