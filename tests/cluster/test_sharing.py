"""Three hosts are one site: prepared once, changed on one and seen on all, limited over all."""

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from secrets import token_hex

import pytest

from project import login

from ..support import file_server, tile_server
from ..support.crowd import Crowd
from ..support.file_server import FileServer
from ..support.layers import SPEEDS, colour_of, load_line
from ..support.stack import eventually
from . import pages
from .hosts import HOT_SECONDS, Host
from .pages import Caller
from .world import Cluster

CLIENTS = 500
SHOWN_SECONDS = HOT_SECONDS + 1
UPLOAD_SECONDS, HELD_SECONDS = 20, 60
STORED = {"task": "resources.paint_tiles", "outcome": "stored"}
STRANGER = "198.51.100.7"
WINDOW_SPARE_SECONDS = 20


@pytest.fixture
def slug() -> str:
    """The name of a layer that there never was."""
    return f"l{token_hex(4)}"


@pytest.fixture
def origin(cluster: Cluster) -> Iterator[FileServer]:
    with file_server.running(cluster.network.gateway) as server:
        yield server


def answered(cluster: Cluster) -> list[float]:
    return [host.metric("tarry_answers_total", server="main") for host in cluster.hosts]


def test_500_clients_of_all_hosts_for_another_servers_tile_make_one_request(
    cluster: Cluster, a: Host, crowd: Crowd, slug: str
) -> None:
    with tile_server.running(cluster.network.gateway, seconds=2) as server:
        a.change_layers("load_layer", slug, "--upstream", server.template)
        before = answered(cluster)
        visits = crowd.send([f"/tiles/{slug}/1/0/0.png"] * CLIENTS).result(60)
        assert Counter(visit.status for visit in visits) == {200: CLIENTS}
        assert {visit.body for visit in visits} == {server.tile}
        assert server.asked == ["/1/0/0.png"]
    assert all(now > then for now, then in zip(answered(cluster), before, strict=True))
    eventually(lambda: cluster.metric("tarry_waiting_clients") == 0, 10, "nobody waits")


def test_500_clients_of_all_hosts_for_a_painted_tile_make_one_preparation(
    cluster: Cluster, a: Host, crowd: Crowd, slug: str, tmp_path: Path
) -> None:
    address = load_line(a, slug, tmp_path)
    before = cluster.metric("tarry_preparations_total", outcome="stored")
    visits = crowd.send([address] * CLIENTS).result(60)
    assert Counter(visit.status for visit in visits) == {200: CLIENTS}
    assert {colour_of(body) for body in {visit.body for visit in visits}} == {"green"}
    assert cluster.metric("tarry_preparations_total", outcome="stored") - before == 1


def test_a_layer_loaded_on_one_host_and_speeds_sent_to_another_show_on_all(
    cluster: Cluster, a: Host, b: Host, slug: str, tmp_path: Path
) -> None:
    address = f"/tiles/{slug}/1/0/0.png"
    assert [pages.get(host, address).status_code for host in cluster.hosts] == [404, 404, 404]
    load_line(a, slug, tmp_path)
    for host in cluster.hosts:
        eventually(partial(shows, host, address, "green"), SHOWN_SECONDS, f"{host.name} shows the layer")
    token = a.manage("create_token", slug, "--layers", slug).strip()
    rows = f"segment_id,speed_kmh,free_flow_kmh\n{SPEEDS['dark_red']}\n"
    assert Caller(b, token).send("POST", f"/api/layers/{slug}/speeds", rows).status_code == 200
    for host in cluster.hosts:
        eventually(partial(shows, host, address, "dark_red"), SHOWN_SECONDS, f"{host.name} shows the speeds")


def shows(host: Host, address: str, colour: str) -> bool:
    answer = pages.get(host, address)
    return answer.status_code == 200 and colour_of(answer.content) == colour


def test_a_file_ingested_on_one_host_is_served_by_all_before_it_is_uploaded_and_after_and_taken_down_gone_on_all(
    cluster: Cluster, a: Host, origin: FileServer, tmp_path: Path
) -> None:
    body = origin.files["/file"] = token_hex(1000).encode()
    digest, url = sha256(body).hexdigest(), f"{origin.url}/file"
    (tmp_path / "urls").write_text(f"{url}\n")
    [signed] = a.manage("sign_url", url).split()
    addresses = [f"/resources/{digest}", signed.removeprefix(cluster.base_url)]

    def is_everywhere() -> bool:
        return all(pages.is_content(host, address, body) for host in cluster.hosts for address in addresses)

    with cluster.stores.silent_bucket():
        a.manage("ingest", str(tmp_path / "urls"))
        eventually(is_everywhere, HELD_SECONDS, "the others have it from the host that holds it")
    name, bucket = f"mirror/{digest[:2]}/{digest[2:4]}/{digest}", cluster.stores.bucket
    eventually(lambda: name in bucket.names(), UPLOAD_SECONDS, "it is uploaded")
    assert is_everywhere()
    assert origin.asked == ["/file"]

    token = a.manage("create_token", digest[:8], "--take-down").strip()
    assert Caller(a, token).send("DELETE", f"/api/resources/{digest}").status_code == 200

    def is_gone() -> bool:
        answers = [pages.get(host, address) for host in cluster.hosts for address in addresses]
        return {answer.status_code for answer in answers} == {410}

    eventually(is_gone, HOT_SECONDS, "it is gone on all hosts")
    assert (origin.asked, name in bucket.names()) == (["/file"], False)


def test_wrong_passwords_are_counted_over_all_hosts(cluster: Cluster) -> None:
    left_seconds = login.GUESS_WINDOW_SECONDS - time.time() % login.GUESS_WINDOW_SECONDS
    if left_seconds < WINDOW_SPARE_SECONDS:  # the next window would begin among the attempts
        time.sleep(left_seconds)
    turns = [cluster.hosts[number % 3] for number in range(12)]
    statuses = [pages.sign_in(host, STRANGER, "admin", "wrong") for host in turns]
    assert statuses == [200] * 10 + [429, 429]
    assert {pages.sign_in(host, STRANGER, "admin", "wrong") for host in cluster.hosts} == {429}
    assert pages.sign_in(cluster.hosts[0], "203.0.113.9", "admin", "wrong") == 200
