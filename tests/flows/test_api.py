"""The API on the whole site: its changes show on the map, soon and for all visitors, and nothing is lost."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import expect

from ..support import clock
from ..support.browser import Visit
from ..support.crowd import Crowd
from ..support.layers import SPEEDS, colour_of, load_line
from ..support.stack import Stack, eventually

HOT_SECONDS = 5
PAINTING_SECONDS = 3
HEADER = "segment_id,speed_kmh,free_flow_kmh\n"
SEGMENTS = 20


@dataclass(frozen=True, slots=True)
class Sender:
    """A client with a token."""

    site: str
    token: str

    def post(self, path: str, body: bytes | str = b"", kind: str = "text/csv", **fields: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind, **named}
        return requests.post(f"{self.site}/api/layers/{path}", body, headers=headers, timeout=60)

    def send(self, slug: str, *rows: str) -> requests.Response:
        return self.post(f"{slug}/speeds", HEADER + "\n".join(rows))


@pytest.fixture(scope="module")
def sender(stack: Stack) -> Sender:
    return Sender(
        stack.base_url,
        stack.manage("create_token", "flows", "--layers", "*", "--mirror", "--feeds", "--user", "admin").strip(),
    )


@pytest.fixture
def many(stack: Stack, slug: str, tmp_path: Path) -> str:
    """A layer of many lines without speeds."""
    features = [
        {
            "type": "Feature",
            "id": f"s{number}",
            "properties": {},
            "geometry": {"type": "LineString", "coordinates": [[number, 0], [number, 10]]},
        }
        for number in range(SEGMENTS)
    ]
    file = tmp_path / "many.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    stack.change_layers("load_layer", slug, "--lines", str(file))
    return slug


def test_speeds_that_are_sent_show_in_the_tile_for_a_client_that_polls(
    stack: Stack, crowd: Crowd, sender: Sender, slug: str, tmp_path: Path
) -> None:
    address = load_line(stack, slug, tmp_path)
    eventually(lambda: crowd.visit(address).status == 200, 10, "main knows the layer")
    assert colour_of(crowd.visit(address).body) == "green"
    began = clock.seconds()
    assert sender.send(slug, SPEEDS["dark_red"]).json()["changed"] == 1
    eventually(
        lambda: colour_of(crowd.visit(address).body) == "dark_red", HOT_SECONDS + PAINTING_SECONDS, "the new colour"
    )
    assert clock.seconds() - began <= HOT_SECONDS + PAINTING_SECONDS


def test_a_part_that_expires_is_painted_anew_and_the_rest_is_not(
    stack: Stack, crowd: Crowd, sender: Sender, slug: str, tmp_path: Path
) -> None:
    load_line(stack, slug, tmp_path)
    west, east = f"/tiles/{slug}/7/35/63.png", f"/tiles/{slug}/7/80/63.png"  # too far apart for any block
    eventually(lambda: crowd.visit(west).status == 200, 10, "main knows the layer")
    crowd.visit(east)
    keys = [f"retry:content:tile:{slug}:7:{x}:63:png" for x in (35, 80)]
    before = [_version(stack, key) for key in keys]
    body = json.dumps({"bbox": [-89, -10, -50, 10], "min_zoom": 7, "max_zoom": 7})
    version = sender.post(f"{slug}/expire", body, "application/json").json()["version"]

    def painted_anew() -> bool:
        crowd.visit(west)
        crowd.visit(east)
        return _version(stack, keys[0]) >= int(version)

    eventually(painted_anew, HOT_SECONDS + PAINTING_SECONDS, "the part is painted anew")
    assert _version(stack, keys[1]) == before[1]


def test_a_token_for_files_may_not_change_a_layer(stack: Stack, many: str) -> None:
    files = Sender(stack.base_url, stack.manage("create_token", f"files for {many}", "--mirror").strip())
    answers = files.post(f"{many}/expire"), files.send(many, "s1,1,50")
    assert [answer.status_code for answer in answers] == [403, 403]


def test_many_who_send_speeds_at_once_lose_none(stack: Stack, sender: Sender, many: str) -> None:
    """Each sends its own segments, some with others in between, to all processes and threads of main."""

    def send(number: int) -> list[int]:
        rows = [[f"s{number},{speed},50"] for speed in (10, 20, 30 + number)]
        return [sender.send(many, *each).status_code for each in rows]

    with ThreadPoolExecutor(16) as threads:
        statuses = [status for each in threads.map(send, range(SEGMENTS)) for status in each]
    assert set(statuses) == {200}
    last = sender.send(many, *(f"s{number},{30 + number},50" for number in range(SEGMENTS))).json()
    assert last["changed"] == 0
    assert last["segments_with_speeds"] == SEGMENTS
    assert len(list((stack.data / "blobs" / "layers" / many).iterdir())) == 2


@pytest.mark.no_database
def test_a_body_that_is_refused_unread_is_told_why(stack: Stack, sender: Sender, many: str) -> None:
    large = b"s1,1,50\n" * 4_000_000
    stranger = Sender(sender.site, "tarry_" + "x" * 43)
    for answer, status in (
        (stranger.post(f"{many}/speeds", large), 401),
        (sender.post("nowhere/speeds", large), 404),
        (sender.post(f"{many}/speeds", large, "image/png"), 415),
        (sender.post(f"{many}/speeds", b"\0" * 201_000_000), 413),
        (sender.post(f"{many}/speeds", gzip.compress(b"\0" * 150_000_000), Content_Encoding="gzip"), 413),
    ):
        assert answer.status_code == status, answer.text
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == status


def test_large_bodies_do_not_hold_up_main(stack: Stack, crowd: Crowd, sender: Sender, many: str) -> None:
    crowd.visit(f"/tiles/{many}/3/4/4.png")
    body = (HEADER + "".join(f"x{number},1,50\n" for number in range(300_000)) + "s1,1,50\n").encode()
    with ThreadPoolExecutor(2) as threads:
        sent = [threads.submit(sender.post, f"{many}/speeds", body) for _ in range(2)]
        took = []
        while not all(each.done() for each in sent):
            began = clock.seconds()
            assert requests.get(f"{stack.base_url}/api/layers", timeout=10).status_code == 200
            took.append(clock.seconds() - began)
    assert [each.result().json().get("unknown") for each in sent] == [300_000, 300_000]
    assert len(took) > 10
    assert sorted(took)[len(took) * 9 // 10] < 0.5


@pytest.mark.browser
def test_the_documentation_works_with_what_the_site_itself_serves(stack: Stack, desktop: Visit) -> None:
    page, operation = desktop.page, desktop.page.locator("#operations-layers-list_layers")
    page.goto(f"{stack.base_url}/api/docs")
    expect(page.locator(".opblock")).to_have_count(24)
    for button in (".opblock-summary-control", ".try-out__btn", ".execute"):
        operation.locator(button).click()
    expect(operation.locator(".live-responses-table .response-col_status")).to_contain_text(["200"])
    assert (desktop.complaints, desktop.hosts) == ([], {stack.host})


def _version(stack: Stack, key: str) -> int:
    held: Any = stack.cache.hgetall(key)
    return int(json.loads(held[b"meta"])["version"])
