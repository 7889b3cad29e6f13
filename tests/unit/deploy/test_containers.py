"""The image and the compose file are well-formed, and each role has a service. Builds and starts nothing."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from project.paths import BASE_DIR
from project.processes import ROLES

from ...support.deployment import (
    DEPLOY,
    check_part,
    find_unknown_settings,
    read_documents,
    read_variables,
    run_tool,
    sum_stop_seconds,
)

CONTAINERFILE = DEPLOY / "Containerfile"
COMPOSE = DEPLOY / "compose.yaml"
EXAMPLE = DEPLOY / "compose.env"
FILLED = {name: value or "secret" for name, value in read_variables(EXAMPLE.read_text()).items()} | {
    "ALLOWED_HOSTS": "",
    "TRUSTED_PROXIES": "",
}
[WRITTEN] = read_documents(COMPOSE)
OURS = ("web", "paint", "fetch", "release", "bucket")
PARTS = ("web", "paint", "fetch")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The services as podman-compose reads them, with the example's settings filled in."""
    filled = tmp_path_factory.mktemp("compose") / ".env"
    filled.write_text("".join(f"{name}={value}\n" for name, value in FILLED.items()))
    podman = filled.with_name("podman")  # asked for its version alone
    podman.write_text("#!/bin/sh\necho podman version 5.0.0\n")
    podman.chmod(0o755)
    files = ("--env-file", filled, "--file", COMPOSE)
    text = run_tool("podman-compose", "--podman-path", podman, *files, "config", env={"PATH": os.environ["PATH"]})
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return found


def image_lines(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction} (.*)$", CONTAINERFILE.read_text(), re.MULTILINE)


def copied_names() -> list[str]:
    """The files and folders of the checkout that the image gets."""
    return [name for line in image_lines("COPY") if not line.startswith("--") for name in line.split()[:-1]]


def sent_names() -> set[str]:
    """The files and folders of the checkout that a build is sent."""
    return {line[1:] for line in (BASE_DIR / ".dockerignore").read_text().splitlines() if line.startswith("!")}


def image_environment() -> dict[str, str]:
    return dict(word.split("=", 1) for line in image_lines("ENV") for word in shlex.split(line))


def test_hadolint_has_nothing_to_say_of_the_image() -> None:
    assert run_tool("hadolint", CONTAINERFILE) == ""


def test_hadolint_would_tell_a_fault(tmp_path: Path) -> None:
    wrong = tmp_path / "Containerfile"
    wrong.write_text(CONTAINERFILE.read_text().replace("WORKDIR /opt/tarry", "WORKDIR opt/tarry"))
    with pytest.raises(AssertionError, match="DL3000"):
        run_tool("hadolint", wrong)


def test_the_image_runs_as_an_ordinary_user_and_has_the_product_alone() -> None:
    assert image_lines("USER") == ["10001:10001"]
    assert set(copied_names()) == sent_names()
    assert [name for name in copied_names() if not (BASE_DIR / name).exists()] == []


def test_the_files_of_the_image_suffice_for_a_start(tmp_path: Path) -> None:
    checkout = tmp_path / "tarry"
    checkout.mkdir()
    for name in sent_names().intersection(copied_names()):
        copy = shutil.copytree if (BASE_DIR / name).is_dir() else shutil.copy
        copy(BASE_DIR / name, checkout / name)
    directories = {"DATA_DIR": str(tmp_path / "data"), "RUNTIME_DIR": str(tmp_path / "site")}
    given = {**image_environment(), **directories, "PATH": os.environ["PATH"], "ROLES": "state,cache"}
    program = "from project.run import prepare_run; print(*prepare_run())"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=checkout, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "project.supervisor" in done.stdout


def test_the_image_writes_to_volumes_alone() -> None:
    given = image_environment()
    volumes = [Path(path) for path in yaml.safe_load(image_lines("VOLUME")[0])]
    assert Path(given["DATA_DIR"]) in volumes
    assert Path(given["RUNTIME_DIR"]).parent in volumes


def test_the_compose_file_follows_its_schema() -> None:
    run_tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE)


def test_the_schema_would_tell_a_fault(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("read_only: true", "read_only: [true]"))
    with pytest.raises(AssertionError, match="read_only"):
        run_tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", wrong)


def test_the_example_has_every_variable_of_the_compose_file_that_has_no_default() -> None:
    named = dict(re.findall(r"\$\{([A-Z_]+)(?::([-?])[^}]*)?\}", COMPOSE.read_text()))
    assert {name for name, rest in named.items() if rest != "-"} <= set(FILLED) <= set(named)


def test_every_role_has_a_service(services: dict[str, dict[str, Any]]) -> None:
    roles = [role for name in PARTS for role in services[name]["environment"]["ROLES"].split(",")]
    assert sorted([*roles, "state", "cache"]) == sorted(ROLES)
    assert {"state", "cache", "database", "storage"} <= set(services)


@pytest.mark.parametrize("name", OURS)
def test_a_container_of_the_site_is_confined(services: dict[str, dict[str, Any]], name: str) -> None:
    service = services[name]
    assert service["read_only"]
    assert (service["user"], service["cap_drop"]) == ("10001:10001", ["ALL"])
    written = {volume.rpartition(":")[2] if ":" in volume else volume for volume in service["volumes"]}
    assert written == set(yaml.safe_load(image_lines("VOLUME")[0]))


@pytest.mark.parametrize("name", PARTS)
def test_a_part_waits_for_the_release_and_has_time_to_stop(services: dict[str, dict[str, Any]], name: str) -> None:
    service, given = services[name], services[name]["environment"]
    assert not service.get("depends_on")  # else podman-compose stops a store together with the part
    assert given["RELEASE"] == "0"
    allowed = service["stop_grace_period"]
    assert sum_stop_seconds(float(given["DRAIN_SECONDS"])) < float(allowed.removesuffix("s"))


def test_the_release_waits_for_every_store(services: dict[str, dict[str, Any]]) -> None:
    conditions = {name: one["condition"] for name, one in services["release"]["depends_on"].items()}
    made = dict.fromkeys(("database", "state", "cache"), "service_healthy")
    assert conditions == {**made, "bucket": "service_completed_successfully"}
    assert services["bucket"]["depends_on"]["storage"]["condition"] == "service_healthy"


def test_what_stays_is_started_after_a_reboot_and_what_ends_is_repeated_until_it_succeeds() -> None:
    policies = {name: service["restart"] for name, service in WRITTEN["services"].items()}
    ending = {"bucket", "release"}
    assert policies == {name: "on-failure" if name in ending else "always" for name in policies}


def test_the_database_is_healthy_only_when_it_answers_by_tcp(services: dict[str, dict[str, Any]]) -> None:
    asked = services["database"]["healthcheck"]["test"]
    assert asked[asked.index("--host") + 1] == "127.0.0.1"


def test_health_is_asked_of_web_over_http_and_of_the_others_by_their_processes(
    services: dict[str, dict[str, Any]],
) -> None:
    assert "/healthz/ready" in services["web"]["healthcheck"]["test"][-1]
    told = f"{image_environment()['RUNTIME_DIR']}/supervisord.conf"
    assert all(services[name]["healthcheck"]["test"][-2:] == [told, "status"] for name in ("paint", "fetch"))
    assert all("healthcheck" in service for name, service in services.items() if name not in {"release", "bucket"})


@pytest.mark.parametrize("name", PARTS)
def test_a_health_check_needs_no_quotes_of_podman_compose(services: dict[str, dict[str, Any]], name: str) -> None:
    kind, *words = services[name]["healthcheck"]["test"]
    assert kind == "CMD-SHELL" or all(re.fullmatch(r"[\w./-]+", word) for word in words)


@pytest.mark.parametrize("name", PARTS)
def test_every_setting_is_described(services: dict[str, dict[str, Any]], name: str) -> None:
    assert find_unknown_settings([*services[name]["environment"], *image_environment()]) == []


def test_the_front_starts_without_contradictions(services: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    check_part({**image_environment(), **services["web"]["environment"]}, tmp_path)
