"""The units of deploy/systemd are valid, hardened, and there is one for each role. Starts no service."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from project.processes import ROLES

from ...support.deployment import (
    DEPLOY,
    check_part,
    find_program,
    find_unknown_settings,
    read_variables,
    sum_stop_seconds,
)

UNITS = DEPLOY / "systemd"
SITE = read_variables((UNITS / "site.env").read_text())
PARTS = {file.stem: read_variables(file.read_text()) for file in (UNITS / "parts").glob("*.env")}
SERVICES = ("tarry@.service", "tarry-release.service")
MOST_EXPOSURE = 3.0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root directory with the units of the system and ours, and with the program that ours start."""
    find_program("systemd-analyze", "systemd")
    shutil.copytree("/usr/lib/systemd/system", tmp_path / "usr/lib/systemd/system", symlinks=True)
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    for unit in (*SERVICES, "tarry.target"):
        shutil.copy(UNITS / unit, units)
    program = tmp_path / "opt/tarry/.venv/bin/python"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return tmp_path


def analyze(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [find_program("systemd-analyze", "systemd"), *arguments]
    plain = {**os.environ, "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    return subprocess.run(command, env=plain, capture_output=True, text=True, timeout=30, check=False)


def complaints(root: Path) -> str:
    """What systemd says of the units. It only warns of a wrong value, and ends well."""
    units = ["tarry.target", "tarry-release.service", *(f"tarry@{part}.service" for part in PARTS)]
    return analyze("verify", "--man=no", f"--root={root}", *units).stderr


def exposure(unit: Path) -> float:
    report = analyze("security", "--offline=yes", unit)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", report.stdout)
    assert found, report.stderr
    return float(found[1])


def values(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", (UNITS / unit).read_text(), re.MULTILINE)


def environment(unit: str, part: str = "web") -> dict[str, str]:
    words = [word for value in values(unit, "Environment") for word in value.split()]
    return dict(word.replace("%H", "host").replace("%i", part).split("=", 1) for word in words)


def test_systemd_has_nothing_to_say_of_the_units(root: Path) -> None:
    assert complaints(root) == ""


@pytest.mark.parametrize("wrong", ["ProtectSystem=very", "NoSuchSetting=1", "TimeoutStopSec=soon"])
def test_a_wrong_value_would_be_told(root: Path, wrong: str) -> None:
    unit = root / "etc/systemd/system/tarry@.service"
    unit.write_text(unit.read_text().replace("[Service]\n", f"[Service]\n{wrong}\n"))
    assert complaints(root)


@pytest.mark.parametrize("unit", SERVICES)
def test_a_service_is_exposed_little(unit: str) -> None:
    assert exposure(UNITS / unit) <= MOST_EXPOSURE


def test_a_service_without_hardening_would_be_exposed(tmp_path: Path) -> None:
    unit = tmp_path / "tarry-release.service"
    lines = (UNITS / unit.name).read_text().splitlines()
    unit.write_text("\n".join(line for line in lines if not re.match("Protect|Private|Restrict|System|Cap", line)))
    assert exposure(unit) > MOST_EXPOSURE


def test_both_services_are_hardened_alike() -> None:
    hardened = [
        re.findall(r"^CapabilityBoundingSet=.*?^$", (UNITS / unit).read_text() + "\n", re.M | re.S) for unit in SERVICES
    ]
    settings = [{line for line in text[0].splitlines() if line and not line.startswith("#")} for text in hardened]
    assert settings[0] == settings[1]


def test_a_stop_takes_less_time_than_systemd_allows() -> None:
    [allowed] = values("tarry@.service", "TimeoutStopSec")
    assert sum_stop_seconds(float(environment("tarry@.service")["DRAIN_SECONDS"])) < float(allowed)
    assert values("tarry@.service", "KillMode") == ["mixed"]


def test_every_role_has_a_part() -> None:
    assert {role for part, given in PARTS.items() if part != "all" for role in given["ROLES"].split(",")} == {
        role
        for role in ROLES
        if role not in {"state", "cache"}  # Redis' own units run these
    }
    assert PARTS["all"]["ROLES"].split(",") == list(ROLES)


@pytest.mark.parametrize(("part", "site"), [("web", SITE), ("all", {"PUBLIC_URL": SITE["PUBLIC_URL"]})])
def test_a_part_starts_without_contradictions(part: str, site: dict[str, str], tmp_path: Path) -> None:
    check_part({**environment("tarry@.service", part), **site, **PARTS[part]}, tmp_path)


def test_every_setting_is_described() -> None:
    given = [SITE, *PARTS.values(), *map(environment, SERVICES)]
    assert find_unknown_settings(name for variables in given for name in variables) == []


def test_the_user_of_the_services_is_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    program = find_program("systemd-sysusers", "systemd")
    subprocess.run([program, f"--root={tmp_path}", UNITS / "sysusers.conf"], capture_output=True, check=True)
    made = (tmp_path / "etc/passwd").read_text()
    assert re.search(r"^tarry:.*:/var/lib/tarry:/usr/sbin/nologin$", made, re.MULTILINE)
    assert {*values("tarry@.service", "User"), *values("tarry-release.service", "User")} == {"tarry"}


def test_the_folder_of_settings_is_for_root_and_the_site() -> None:
    lines = [line.split() for line in (UNITS / "tmpfiles.conf").read_text().splitlines() if not line.startswith("#")]
    assert lines == [["d", "/etc/tarry", "0750", "root", "tarry"], ["z", "/etc/tarry/*", "0640", "root", "tarry"]]
    read = [Path(path.lstrip("-")) for path in values("tarry@.service", "EnvironmentFile")]
    assert {path.parent for path in (*read, Path(SITE["SECRET_KEY_FILE"]))} == {Path("/etc/tarry")}
