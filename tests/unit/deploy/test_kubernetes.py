"""The manifests of deploy/kubernetes are valid and fit together, with a workload for each role. Asks no cluster."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from project.processes import ROLES

from ...support.deployment import (
    DEPLOY,
    check_part,
    find_unknown_settings,
    read_documents,
    run_tool,
    sum_stop_seconds,
)

BASE = DEPLOY / "kubernetes"
STORES = BASE / "stores"
FOLDERS = (BASE, STORES)
MANIFESTS = sorted(file for file in BASE.rglob("*.yaml") if file.name != "kustomization.yaml")
Manifest = dict[str, Any]


def of_kind(*kinds: str, folder: Path = BASE) -> dict[str, Manifest]:
    """The manifests of these kinds in a folder, by their names."""
    found = read_documents(*(file for file in MANIFESTS if file.parent == folder))
    return {one["metadata"]["name"]: one for one in found if one["kind"] in kinds}


WORKLOADS = of_kind("Deployment", "StatefulSet")
PODS = {name: one["spec"]["template"]["spec"] for name, one in (WORKLOADS | of_kind("Job")).items()}
STORE_PODS = {name: one["spec"]["template"]["spec"] for name, one in of_kind("StatefulSet", folder=STORES).items()}
SETTINGS: dict[str, str] = (
    of_kind("ConfigMap")["tarry-settings"]["data"] | of_kind("Secret")["tarry-secrets"]["stringData"]
)


def environment(pod: Manifest) -> dict[str, str]:
    [container] = pod["containers"]
    return SETTINGS | {one["name"]: one.get("value", "tarry-web-0") for one in container["env"]}


def probes(name: str) -> Iterator[tuple[str, Manifest]]:
    [container] = PODS[name]["containers"]
    yield from ((kind, probe) for kind, probe in container.items() if kind.endswith("Probe"))


def test_the_manifests_follow_the_schemas_of_kubernetes() -> None:
    run_tool("kubernetes-validate", "--strict", *MANIFESTS)


def test_a_wrong_field_would_be_told(tmp_path: Path) -> None:
    wrong = tmp_path / "web.yaml"
    wrong.write_text((BASE / "web.yaml").read_text().replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"))
    with pytest.raises(AssertionError, match="readOnlyRootFileSystem"):
        run_tool("kubernetes-validate", "--strict", wrong)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_kustomization_names_every_manifest_but_examples(folder: Path) -> None:
    [kustomization] = read_documents(folder / "kustomization.yaml")
    files = {file.name for file in MANIFESTS if file.parent == folder and ".example." not in file.name}
    assert set(kustomization["resources"]) == files


def test_every_role_has_a_workload() -> None:
    roles = {role for name in WORKLOADS for role in environment(PODS[name])["ROLES"].split(",")}
    stores = {name.removeprefix("tarry-") for name in STORE_PODS}
    assert roles | stores == set(ROLES)


@pytest.mark.parametrize("name", PODS)
def test_every_setting_is_described(name: str) -> None:
    assert find_unknown_settings(list(environment(PODS[name]))) == []


@pytest.mark.parametrize("pod", [*PODS.values(), *STORE_PODS.values()], ids=[*PODS, *STORE_PODS])
def test_a_pod_is_confined(pod: Manifest) -> None:
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("name", PODS)
def test_a_pod_of_the_site_can_write_its_directories(name: str) -> None:
    [container] = PODS[name]["containers"]
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert set(mounted) == {"/var/lib/tarry", "/run/tarry", "/tmp"}
    claimed = [
        one["metadata"]["name"] for one in WORKLOADS.get(name, {"spec": {}})["spec"].get("volumeClaimTemplates", [])
    ]
    assert sorted(mounted.values()) == sorted([*claimed, *(one["name"] for one in PODS[name]["volumes"])])


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_survives_disruptions_and_has_time_to_stop(name: str) -> None:
    labels = WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
    assert WORKLOADS[name]["spec"]["selector"]["matchLabels"] == labels
    assert of_kind("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"] == labels
    given = environment(PODS[name])
    assert given["RELEASE"] == "0"
    assert sum_stop_seconds(float(given["DRAIN_SECONDS"])) < PODS[name]["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "tarry-web"])
def test_a_pod_without_a_front_is_asked_for_its_processes(name: str) -> None:
    command = [".venv/bin/supervisorctl", "-c", "/run/tarry/site/supervisord.conf", "status"]
    assert {kind: probe["exec"]["command"] for kind, probe in probes(name)} == {
        "livenessProbe": command,
        "startupProbe": command,
    }


def test_the_front_lives_by_one_address_and_gets_requests_by_another() -> None:
    assert {kind: probe["httpGet"]["path"] for kind, probe in probes("tarry-web")} == {
        "startupProbe": "/healthz/live",
        "livenessProbe": "/healthz/live",
        "readinessProbe": "/healthz/ready",
    }


def test_a_front_that_drains_is_noticed_before_it_stops() -> None:
    ready = dict(probes("tarry-web"))["readinessProbe"]
    assert ready["periodSeconds"] * ready["failureThreshold"] < float(SETTINGS["DRAIN_SECONDS"])


def test_services_find_their_pods() -> None:
    of_base = {name: (one, WORKLOADS[name]) for name, one in of_kind("Service").items()}
    stores = of_kind("StatefulSet", folder=STORES)
    of_stores = {name: (one, stores[name]) for name, one in of_kind("Service", folder=STORES).items()}
    for service, workload in (of_base | of_stores).values():
        assert service["spec"]["selector"] == workload["spec"]["template"]["metadata"]["labels"]
    assert {one["spec"]["serviceName"] for one in stores.values()} == set(of_stores)
    assert WORKLOADS["tarry-fetch"]["spec"]["serviceName"] in of_base


def test_one_job_releases_for_all() -> None:
    [container] = PODS["tarry-release"]["containers"]
    assert container["command"] == [".venv/bin/python", "-m", "project.release"]


def test_the_front_starts_without_contradictions(tmp_path: Path) -> None:
    check_part(environment(PODS["tarry-web"]), tmp_path)
