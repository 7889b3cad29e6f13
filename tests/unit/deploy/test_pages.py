"""The commands of the pages about deployment name what is there; those that write settings are carried out.

The others install packages, or change a host or a cluster.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from project.paths import BASE_DIR

from ...support.deployment import DEPLOY, read_documents, read_variables, run_tool
from ...support.documentation import code_block

SYSTEMD, CONTAINERS, KUBERNETES = "docs/deploy-systemd.md", "docs/deploy-containers.md", "docs/deploy-kubernetes.md"
BLOCKS = [
    code_block(SYSTEMD, "", "git clone"),
    code_block(SYSTEMD, "", "systemd-sysusers"),
    code_block(SYSTEMD, "", "TRUSTED_PROXIES=127.0.0.1"),
    code_block(SYSTEMD, "", "--grep Administrator"),
    code_block(SYSTEMD, "", "createuser"),
    code_block(SYSTEMD, "", "redis-server@state"),
    code_block(SYSTEMD, "", "openssl rand -hex 32"),
    code_block(SYSTEMD, "", "--create tarry.conf"),
    code_block(SYSTEMD, "", "echo LISTEN"),
    code_block(SYSTEMD, "", "systemctl start tarry-release"),
    code_block(SYSTEMD, "", "systemctl start tarry.target"),
    code_block(SYSTEMD, "", "haproxy -c"),
    code_block(SYSTEMD, "", "create_token"),
    code_block(SYSTEMD, "", "git pull"),
    code_block(SYSTEMD, "", "systemctl restart tarry-release"),
    code_block(CONTAINERS, "", "git clone"),
    code_block(CONTAINERS, "", "openssl rand"),
    code_block(CONTAINERS, "", "logs release"),
    code_block(CONTAINERS, "", "podman-restart"),
    code_block(CONTAINERS, "", "create_token"),
    code_block(CONTAINERS, "", "git pull"),
    code_block(CONTAINERS, "", "pg_dump"),
    code_block(KUBERNETES, "", "git clone"),
    code_block(KUBERNETES, "", "create namespace"),
    code_block(KUBERNETES, "", "stores-secret.yaml"),
    code_block(KUBERNETES, "", "logs job/tarry-release"),
    code_block(KUBERNETES, "", "port-forward"),
    code_block(KUBERNETES, "", "create_token"),
    code_block(KUBERNETES, "", "delete job"),
]
MADE = {"deploy/.env"}
"""Files below deploy/ that commands make."""

COMPOSED = set(read_documents(DEPLOY / "compose.yaml")[0]["services"])
UNITS = {"tarry.target", "tarry-release", *(f"tarry@{file.stem}" for file in (DEPLOY / "systemd" / "parts").iterdir())}
OBJECTS = {
    f"{one['kind'].lower()}/{one['metadata']['name']}"
    for one in read_documents(*(file for file in (DEPLOY / "kubernetes").glob("*.yaml") if "kustom" not in file.name))
}


def find_wrong_names(block: str) -> list[str]:
    """The names of files, modules, units, services and objects in the commands that are nowhere in the checkout."""
    files = [name for name in re.findall(r"deploy/[\w./@-]+", block) if not (BASE_DIR / name).exists()]
    modules = [name for name in re.findall(r"-m (project\.\w+)", block) if find_spec(name) is None]
    units = [*re.findall(r"\btarry@\w+|\btarry\.target", block), *re.findall(r"(?:start|unit) (tarry-\w+)", block)]
    services = re.findall(r"(?:compose.yaml exec(?: -T)?|logs|--no-deps) (\w+)(?!\w*/)", block)
    services += [name for names in re.findall(r"--force-recreate ([\w ]+)", block) for name in names.split()]
    objects = re.findall(r"\b(?:deployment|statefulset|job|service)/[\w-]+", block)
    return [
        *(name for name in files if name not in MADE),
        *modules,
        *(name for name in units if name not in UNITS),
        *(name for name in services if name not in COMPOSED and "/" not in name and name != "job"),
        *(name for name in objects if name not in OBJECTS),
    ]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_commands_are_well_formed_and_name_what_is_there(block: str) -> None:
    subprocess.run(["bash", "-n"], input=block, text=True, check=True, timeout=10)
    assert find_wrong_names(block) == []


@pytest.mark.parametrize(
    "command",
    [
        "install -m 0644 deploy/systemd/tarry.socket /etc",
        "systemctl start tarry@mirror",
        "podman-compose --file deploy/compose.yaml exec front ls",
        "kubectl rollout status deployment/tarry-front",
        ".venv/bin/python -m project.deploy",
    ],
)
def test_a_wrong_name_would_be_told(command: str) -> None:
    assert len(find_wrong_names(command)) == 1


def carry_out(block: str, checkout: Path) -> None:
    """Runs commands in a copy of deploy/, with its own /etc and /var, and without those that change the host."""
    shutil.copytree(DEPLOY, checkout / "deploy", ignore=shutil.ignore_patterns(".env"))
    programs = checkout / "programs"
    programs.mkdir()
    for name in ("editor", "systemctl", "systemd-sysusers", "systemd-tmpfiles", "kubectl"):
        (programs / name).symlink_to(shutil.which("true") or "/bin/true")
    for folder in ("etc/tarry", "etc/redis", "etc/sysusers.d", "etc/tmpfiles.d", "etc/systemd/system", "var/lib/redis"):
        (checkout / folder).mkdir(parents=True)
    own = re.sub(r"(?<=[ \n])/(etc|var)/", rf"{checkout}/\1/", block)
    own = re.sub(r"(install .*?)((?: -[og] \w+)+)", r"\1", own)  # their users may not be here
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", own], cwd=checkout, env={"PATH": path}, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_units_are_installed(tmp_path: Path) -> None:
    carry_out(code_block(SYSTEMD, "", "systemd-sysusers"), tmp_path)
    installed = {str(file.relative_to(tmp_path / "etc")) for file in (tmp_path / "etc").rglob("*") if file.is_file()}
    units = {f"systemd/system/{name}" for name in ("tarry.target", "tarry@.service", "tarry-release.service")}
    assert installed == {"sysusers.d/tarry.conf", "tmpfiles.d/tarry.conf", *units}


def test_one_host_has_its_settings(tmp_path: Path) -> None:
    carry_out(code_block(SYSTEMD, "", "TRUSTED_PROXIES=127.0.0.1"), tmp_path)
    assert set(read_variables((tmp_path / "etc/tarry/site.env").read_text())) == {"PUBLIC_URL", "TRUSTED_PROXIES"}
    assert (tmp_path / "etc/tarry/all.env").stat().st_mode & 0o777 == 0o640


def test_several_hosts_have_a_secret_key_and_parts(tmp_path: Path) -> None:
    carry_out(
        "\n".join([code_block(SYSTEMD, "", "openssl rand -hex 32"), code_block(SYSTEMD, "", "echo LISTEN")]), tmp_path
    )
    own = tmp_path / "etc/tarry"
    assert re.fullmatch(r"[0-9a-f]{64}\n", (own / "secret_key").read_text())
    assert {file.name for file in own.iterdir()} == {"secret_key", "site.env", "web.env", "paint.env", "fetch.env"}
    assert read_variables((own / "web.env").read_text())["LISTEN"] == "10.0.0.11"


def test_both_redis_servers_are_set_up_for_their_purpose(tmp_path: Path) -> None:
    carry_out(code_block(SYSTEMD, "", "redis-server@state"), tmp_path)
    state, cache = ((tmp_path / f"etc/redis/redis-{name}.conf").read_text() for name in ("state", "cache"))
    assert "maxmemory-policy noeviction" in state
    assert "appendonly yes\nzset-max-listpack-entries 16\n" in state
    assert "maxmemory-policy allkeys-lru" in cache
    assert all((tmp_path / "var/lib/redis" / name).is_dir() for name in ("state", "cache"))


def test_every_secret_of_the_containers_is_made_and_is_another(tmp_path: Path) -> None:
    carry_out(code_block(CONTAINERS, "", "openssl rand"), tmp_path)
    made = read_variables((tmp_path / "deploy/.env").read_text())
    secrets = [made[name] for name in made if name == "SECRET_KEY" or name.endswith(("PASSWORD", "TOKEN"))]
    assert len(set(secrets)) == 5
    assert all(re.fullmatch(r"[0-9a-f]{48}", secret) for secret in secrets)


STORES = {"database", "state", "cache", "storage"}
PODMAN = """#!/bin/sh
case $1 in
    --version) echo podman version 5.4.2 ;;
    inspect) echo an-image ;;
    ps) cat {folder}/containers.json ;;
    *) echo "$@" >> {folder}/calls ;;
esac
"""
"""A podman that runs nothing: it has the containers of a running site, and notes what it is told."""


def upgrade_containers(folder: Path) -> list[str]:
    """Carries out the upgrade of the page at a running site. Returns what podman is told, by verb and service."""
    running = [
        {"Id": name, "Names": [f"tarry_{name}_1"], "Labels": {"com.docker.compose.service": name}} for name in COMPOSED
    ]
    (folder / "containers.json").write_text(json.dumps(running))
    for name, text in {"podman": PODMAN.format(folder=folder), "git": "#!/bin/sh\n"}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    shutil.copytree(DEPLOY, folder / "deploy", ignore=shutil.ignore_patterns(".env"))
    settings = (folder / "deploy/compose.env").read_text()
    (folder / "deploy/.env").write_text(re.sub(r"=$", "=secret", settings, flags=re.MULTILINE))
    block = code_block(CONTAINERS, "", "git pull").replace("/opt/tarry", str(folder))
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-euc", block], env={"PATH": path}, capture_output=True, timeout=60, check=True)
    calls = (folder / "calls").read_text()
    return [
        " ".join(one) for one in re.findall(r"^(run|create|start|stop|rm) .*?\btarry_([a-z]+)_", calls, re.MULTILINE)
    ]


def test_an_upgrade_of_containers_is_in_order_and_leaves_the_stores_alone(tmp_path: Path) -> None:
    calls = upgrade_containers(tmp_path)
    assert calls[0] == "run release"
    assert max(calls.index("start paint"), calls.index("start fetch")) < calls.index("stop web")
    assert calls[-1] == "start web"
    assert [call for call in calls if call.split()[1] in STORES] == []


SELECTORS = re.compile(r"--kustomize deploy/kubernetes --selector '(\S+) (in|notin) \(([\w,]+)\)'")


def test_an_upgrade_of_a_cluster_is_in_order() -> None:
    block = code_block(KUBERNETES, "", "delete job")
    selected = [(operator, set(names.split(","))) for _, operator, names in SELECTORS.findall(block)]
    assert {label for label, _, _ in SELECTORS.findall(block)} == {"app.kubernetes.io/component"}
    assert selected == [("notin", {"work", "paint", "fetch", "web"}), ("in", {"work", "paint"}), ("in", {"fetch"})]
    waits = re.findall(r"(?:job|deployment|statefulset)/tarry-(\w+)", block)
    assert waits == ["release", "work", "paint", "fetch", "web"]
    assert re.findall(r"apply --kustomize deploy/kubernetes(.*)", block)[-1] == ""


CURLS = [line for block in BLOCKS for line in block.splitlines() if line.startswith("curl") and "http://" in line]


@pytest.mark.parametrize("line", CURLS)
def test_a_front_is_asked_so_that_it_answers(line: str) -> None:
    if line.endswith("/healthz/ready"):  # it refuses connections until it has started
        assert "--fail" in line
        assert "--retry-all-errors" in line
    else:  # its reasons are in the body of a 503
        assert line.endswith("/healthz")
        assert "--fail" not in line


@pytest.mark.parametrize(
    ("page", "part", "allowed"),
    [
        (SYSTEMD, "systemctl start tarry.target", read_variables((DEPLOY / "systemd/site.env").read_text())),
        (KUBERNETES, "port-forward", read_documents(DEPLOY / "kubernetes/settings.yaml")[0]["data"]),
    ],
)
def test_health_is_asked_by_a_host_that_the_settings_allow(page: str, part: str, allowed: dict[str, str]) -> None:
    [line] = re.findall(r"^curl .*/healthz$", code_block(page, "", part), re.MULTILINE)
    assert f"--header 'Host: {allowed['ALLOWED_HOSTS']}'" in line


def test_the_site_can_read_settings_that_root_has_copied() -> None:
    text = (BASE_DIR / SYSTEMD).read_text()
    copied, given = text.index("Copy `site.env` and `secret_key`"), text.index("Then give each host its parts")
    assert "systemd-tmpfiles --create tarry.conf" in text[copied:given]


def test_the_ingress_is_valid_and_finds_the_service(tmp_path: Path) -> None:
    block = code_block(KUBERNETES, "yaml", "kind: Ingress")
    file = tmp_path / "ingress.yaml"
    file.write_text(block)
    run_tool("kubernetes-validate", "--strict", file)
    [ingress] = read_documents(file)
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    assert f"service/{path['backend']['service']['name']}" in OBJECTS
