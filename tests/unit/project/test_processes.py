"""The list of processes, and supervisord's file of it."""

from configparser import RawConfigParser
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest

from project import processes
from project.paths import DataDirectory, RuntimeDirectory
from project.processes import ProcessPlan, SupervisedProcess, list_processes
from tests.conftest import RedisServers

PLAN = ProcessPlan(
    python="/venv/python",
    redis_server="/usr/bin/redis-server",
    nginx="/usr/sbin/nginx",
    data=DataDirectory(Path("/data")),
    runtime=RuntimeDirectory(Path("/run/tarry")),
)


def named(plan: ProcessPlan) -> dict[str, SupervisedProcess]:
    return {process.name: process for process in list_processes(plan)}


def option(process: SupervisedProcess, name: str) -> str:
    return process.command[process.command.index(name) + 1]


def priority(process: SupervisedProcess) -> tuple[str, ...]:
    """Its options between the one for its end and its module."""
    given = process.command[process.command.index("--end") + 2 :] if "--end" in process.command else ()
    return tuple(takewhile(lambda part: not part[0].isalpha(), given))


def queues(plan: ProcessPlan) -> list[str]:
    lists = [option(process, "--queues") for process in list_processes(plan) if "--queues" in process.command]
    return [queue for one in lists for queue in one.split(",")]


def parsed(plan: ProcessPlan) -> RawConfigParser:
    parser = RawConfigParser()
    text = processes.supervisord_configuration(list_processes(plan), logs=Path("/logs"), runtime=Path("/run"), user="")
    parser.read_string(text)
    return parser


SMALL = pytest.mark.parametrize("plan", [PLAN, replace(PLAN, small=True)], ids=["usual", "small"])


@SMALL
def test_every_queue_has_one_kind_of_worker_and_there_is_one_beat(plan: ProcessPlan) -> None:
    painted = ["paint.now", "paint.pages", "paint.refresh", "paint.warm"]  # in this order
    assert queues(plan) == [*painted, "work", plan.machine_queue]
    commands = [set(process.command) for process in list_processes(plan)]
    assert len([command for command in commands if {"beat", "--beat-thread"} & command]) == 1


def test_each_lane_has_a_worker_of_its_own_with_the_processor_before_the_next_lane() -> None:
    found = named(PLAN)
    lanes = {option(found[name], "--queues"): priority(found[name]) for name in found if name.startswith("paint")}
    priorities = [("--nice", "5"), ("--nice", "10"), ("--idle",)]
    assert lanes == dict(zip(("paint.now,paint.pages", "paint.refresh", "paint.warm"), priorities, strict=True))


@SMALL
def test_painting_leaves_the_processor_to_what_answers(plan: ProcessPlan) -> None:
    later = {name for name, found in named(plan).items() if priority(found)}
    assert later == ({"paint-now"} if plan.small else {"paint-now", "paint-refresh", "paint-warm"})


def test_a_small_site_has_fewer_processes_and_redis_servers_of_others_are_not_started() -> None:
    assert set(named(PLAN)) - set(named(replace(PLAN, small=True))) == {"paint-refresh", "paint-warm", "beat"}
    assert not {"state", "cache"} & set(named(replace(PLAN, own_state=False, own_cache=False)))


def test_a_machine_has_the_processes_of_its_roles_and_as_many_as_it_is_told() -> None:
    assert set(named(replace(PLAN, roles=("front", "main", "retry")))) == {"nginx", "main", "retry"}
    plan = replace(
        PLAN, roles=("paint", "fetch", "work"), refresh_workers=2, warm_workers=3, work_workers=4, fetchers=3
    )
    found = named(plan)
    numbers = {name: option(found[name], "--concurrency") for name in found if not name.startswith("fetch")}
    assert numbers == {"paint-now": "2", "paint-refresh": "2", "paint-warm": "3", "work": "4"}
    assert [name for name in found if name.startswith("fetch")] == ["fetch", "fetch-2", "fetch-3"]


@pytest.mark.parametrize(("roles", "name"), [(("work",), "work"), (("beat",), "beat"), (("work", "beat"), "work")])
def test_a_small_machine_has_a_beat_where_that_is_its_role(roles: tuple[str, ...], name: str) -> None:
    found = named(replace(PLAN, small=True, roles=roles))
    assert set(found) == {name}
    assert bool({"beat", "--beat-thread"} & set(found[name].command)) == ("beat" in roles)


@pytest.mark.parametrize(
    ("name", "policy", "max_bytes"),
    [("state", "noeviction", PLAN.state_max_bytes), ("cache", "allkeys-lru", PLAN.cache_max_bytes)],
)
def test_redis_is_reached_by_its_socket_and_claims_are_not_evicted(name: str, policy: str, max_bytes: int) -> None:
    server = named(PLAN)[name]
    assert f"redis-server /run/tarry/{name}.conf --unixsocket /run/tarry/{name}.sock" in " ".join(server.command)
    assert (option(server, "--maxmemory-policy"), option(server, "--maxmemory")) == (policy, str(max_bytes))


def test_large_sorted_sets_of_claims_are_not_compact(redis_servers: RedisServers) -> None:
    client, limit = redis_servers.state.client, "zset-max-ziplist-entries"
    usual = client.config_get(limit)
    client.config_set(limit, str(option(named(PLAN)["state"], f"--{limit}")))
    try:
        client.zadd("claims", {str(number): number for number in range(17)})
        assert client.object("encoding", "claims") == b"skiplist"
    finally:
        client.config_set(limit, str(usual[limit]))


@pytest.mark.parametrize(
    ("listen", "password", "text"),
    [
        ("", "", "port 0\n"),
        ("10.0.0.5:6379", "a b", 'bind 10.0.0.5\nport 6379\ntcp-keepalive 10\nrequirepass "a b"\n'),
        ("[::1]:6380", "", "bind ::1\nport 6380\ntcp-keepalive 10\n"),
        ("", 'a"b\\', 'port 0\nrequirepass "a\\"b\\\\"\n'),
    ],
)
def test_redis_listens_for_other_machines_where_it_is_told_so(listen: str, password: str, text: str) -> None:
    assert processes.redis_configuration(listen, password) == text


def test_instances_listen_by_their_sockets_and_where_they_are_told() -> None:
    found = named(replace(PLAN, main_listen="10.0.0.5:8100"))
    bound = {
        name: [given for given in found[name].command if given.startswith(("unix:", "10."))]
        for name in ("main", "retry")
    }
    assert bound == {
        "main": ["unix:/run/tarry/main.sock", "10.0.0.5:8100"],
        "retry": ["unix:/run/tarry/retry.sock"],
    }


@SMALL
def test_processes_that_answer_no_requests_do_without_what_answers_need(plan: ProcessPlan) -> None:
    given = {name: process.environment for name, process in named(plan).items()}
    instances = {name: found.get("TARRY_INSTANCE", "") for name, found in given.items()}
    others = {"state": "", "cache": "", "nginx": "", "main": "main", "retry": "retry"}
    assert instances == {name: others.get(name, "worker") for name in given}


def test_the_waiting_instance_is_given_longer_to_stop_than_the_longest_wait() -> None:
    assert named(replace(PLAN, retry_timeout_seconds=60))["retry"].stop_wait_seconds > 65


def test_every_process_ends_with_supervisord_where_the_system_can_do_it() -> None:
    launcher = ("setpriv", "--pdeathsig", "TERM")
    found = named(replace(PLAN, launcher=launcher))
    servers, workers = {"state", "cache", "nginx"}, {"paint-now", "paint-refresh", "paint-warm", "work"}
    assert {name for name in found if found[name].command[:3] == launcher} == servers
    ends = {name: option(found[name], "--end") for name in found.keys() - servers}
    assert ends == {name: "KILL" if name in workers else "TERM" for name in ends}


def test_supervisord_is_told_every_command_as_it_is() -> None:
    parser = parsed(replace(PLAN, python="/a b/100%/python"))
    assert parser["program:main"]["command"].startswith("'/a b/100%%/python' -m project.program --end")
    assert "%%h" in parser["program:work"]["command"]
    assert "user" not in parser["supervisord"]
    text = processes.supervisord_configuration([], logs=Path("/logs"), runtime=Path("/run"), user="root")
    assert "user = root" in text


@SMALL
def test_no_process_writes_more_than_30_mb_of_logs_and_neither_does_supervisord(plan: ProcessPlan) -> None:
    parser = parsed(plan)
    programs = [parser[name] for name in parser.sections() if "command" in parser[name]]
    assert len(programs) == len(list_processes(plan))
    assert {program["redirect_stderr"] for program in programs} == {"true"}
    for section, log in [*((program, "stdout_logfile") for program in programs), (parser["supervisord"], "logfile")]:
        max_bytes, backups = int(section[f"{log}_maxbytes"]), int(section[f"{log}_backups"])
        assert 0 < max_bytes * (backups + 1) <= 30_000_000  # supervisord takes 0 for no limit


def test_what_answers_ends_before_the_front_and_the_front_before_the_stores() -> None:
    parser = parsed(PLAN)
    groups = {name: parser[f"group:{name}"] for name in ("stores", "front", "site")}
    assert groups["stores"]["programs"] == "state,cache"
    assert set(groups["site"]["programs"].split(",")) > {"main", "retry", "paint-now", "work", "beat"}
    priorities = [int(group["priority"]) for group in groups.values()]
    assert priorities == sorted(set(priorities))
