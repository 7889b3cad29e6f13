"""The commands of README.md and docs/, and the calls of docs/api.md, as they stand there, on the whole site."""

import gzip
import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import requests
from PIL import Image

from ..support import file_server, tile_server
from ..support.documentation import carry_out, code_block
from ..support.file_server import FileServer
from ..support.processes import kill_holders_of_sockets
from ..support.stack import ROOT, Stack, eventually
from ..support.tile_server import TileServer

API, README, OWN = "docs/api.md", "README.md", "docs/add-your-own.md"
UPSTREAM, PREWARM, MIRROR = "docs/upstream.md", "docs/prewarming.md", "docs/mirroring.md"
OPERATIONS, FETCHING = "docs/operations.md", "docs/fetching.md"
SITE, MANAGE = "http://127.0.0.1:8000", ".venv/bin/python manage.py "
SECONDS = 60
ENDING_SECONDS = 30
ROADS = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "id": segment,
            "properties": {},
            "geometry": {"type": "LineString", "coordinates": [[-0.2, latitude], [0.1, latitude]]},
        }
        for segment, latitude in (("a-12", 51.5), ("a-13", 51.6))
    ],
}
CITY = {"type": "Polygon", "coordinates": [[[-0.1, 51.5], [0, 51.5], [0, 51.6], [-0.1, 51.6], [-0.1, 51.5]]]}
FEED = b"<rss version='2.0'><channel><title>A blog</title><item><title>One</title></item></channel></rss>"


@pytest.fixture(scope="module")
def origin() -> Iterator[FileServer]:
    """Stands for the other servers that the documentation names."""
    with file_server.running() as server:
        pictures = {"/a.jpg": b"a", "/a.png": b"d", "/b.png?utm_source=x": b"b", "/picture.jpg": b"c"}
        server.files = {**pictures, "/feed": FEED, "/blog": FEED}
        yield server


@pytest.fixture(scope="module")
def folder(stack: Stack, origin: FileServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the commands name; those of README.md have been run in it."""
    made = tmp_path_factory.mktemp("documented")
    (made / "roads.geojson").write_text(json.dumps(ROADS))
    (made / "speeds.csv").write_text(code_block(API, "text", "a-12,31.5,50,2024"))
    (made / "urls.txt").write_text(f"{origin.url}/a.jpg\n")
    (made / "urls.gz").write_bytes(gzip.compress(f"{origin.url}/picture.jpg\n".encode()))
    (made / "city.geojson").write_text(json.dumps(CITY))
    opml = f'<opml version="2.0"><body><outline type="rss" xmlUrl="{origin.url}/feed"/></body></opml>'
    (made / "subscriptions.opml").write_text(opml)
    return made


@pytest.fixture(scope="module")
def roads(stack: Stack, folder: Path) -> str:
    """README.md's commands for an own layer; returns the last of them, for a tile."""
    *commands, tile = code_block(README, "", "load_layer roads").splitlines()
    for command in commands:
        manage(stack, folder, command)
    return tile


@pytest.fixture(scope="module")
def token(stack: Stack, roads: str) -> str:
    return stack.manage("create_token", "all", "--layers", "roads", "--mirror", "--take-down", "--feeds").strip()


def manage(stack: Stack, folder: Path, command: str) -> str:
    """Runs a command of the documentation; names of files are those of the folder."""
    words = shlex.split(command.removeprefix(MANAGE))
    return stack.manage(*(str(folder / word) if (folder / word).is_file() else word for word in words))


def run(stack: Stack, folder: Path, block: str, **variables: str) -> list[str]:
    """Runs commands of the shell, each of which must succeed at this site; returns their answers' lines."""
    block = block.replace(SITE, stack.base_url).replace("curl ", "curl --fail-with-body -sS ")
    block = re.sub(r"(\.venv/bin/python )?manage\.py ", f"{sys.executable} {ROOT}/manage.py ", block)
    done = subprocess.run(
        ["bash", "-ec", f"set -o pipefail\n{block}"],
        cwd=folder,
        env={**stack.environment, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout.splitlines()


def test_an_own_layer_is_loaded_and_shown(stack: Stack, folder: Path, roads: str) -> None:
    run(stack, folder, roads)
    assert size_of(folder / "tile.png") == (256, 256)


def test_urls_are_ingested_and_signed(stack: Stack, folder: Path, origin: FileServer) -> None:
    ingest, sign = code_block(README, "", "ingest urls.txt").splitlines()
    assert "1 URLs: 1 stored" in manage(stack, folder, ingest)
    for command, file in ((sign, b"c"), (code_block(MIRROR, "", "sign_url"), b"d")):
        signed = manage(stack, folder, command.replace("https://example.org", origin.url)).strip()
        assert requests.get(signed, timeout=SECONDS).content == file


def test_a_list_of_feeds_is_imported_and_read(stack: Stack, folder: Path) -> None:
    add, read = code_block(README, "", "import_opml").splitlines()
    manage(stack, folder, add)
    assert "<feed" in "\n".join(run(stack, folder, read))


def test_a_static_map_is_drawn(stack: Stack, folder: Path) -> None:
    stack.change_layers("demo")
    run(stack, folder, code_block(OWN, "", "/staticmap?"))
    assert size_of(folder / "map.png") == (640, 480)


@pytest.fixture
def tiles(stack: Stack) -> Iterator[TileServer]:
    with tile_server.running() as server:
        yield server
        stack.change_layers(
            "shell", "-c", "from resources.models import Layer; Layer.objects.get(slug='topo').delete()"
        )


@pytest.mark.parametrize("block", [code_block(README, "", "--upstream"), code_block(UPSTREAM, "", "--in-flight")])
def test_tiles_of_another_server_are_shown(stack: Stack, folder: Path, tiles: TileServer, block: str) -> None:
    tile = f"/3/1/{len(block) % 8}.png"  # one that is not in the hot cache
    run(stack, folder, block.replace("https://tiles.example.org", tiles.url))
    eventually(lambda: requests.get(f"{stack.base_url}/tiles/topo{tile}", timeout=SECONDS).ok, SECONDS, "its tile")
    assert tiles.asked == [tile]


@pytest.mark.usefixtures("tiles")
def test_a_layer_of_other_tiles_is_described_by_its_options(stack: Stack, folder: Path) -> None:
    run(stack, folder, code_block(UPSTREAM, "", "--most-fresh"))
    eventually(lambda: requests.get(f"{stack.base_url}/tiles/topo.json", timeout=SECONDS).ok, SECONDS, "it is known")
    told = requests.get(f"{stack.base_url}/tiles/topo.json", timeout=SECONDS).json()
    assert (told["name"], told["minzoom"], told["maxzoom"]) == ("Topography", 2, 16)
    assert told["bounds"] == [-11, 35, 32, 60]


@pytest.mark.parametrize("command", code_block(PREWARM, "", "prewarm --layer").splitlines())
def test_content_is_prepared_in_advance(stack: Stack, folder: Path, command: str) -> None:
    """Ended after a moment, as Ctrl-C does, or the time limit in place of ten minutes."""
    stack.change_layers("demo")
    command = command.partition("#")[0].replace("--duration 600", "--duration 2")
    if "--every" in command:
        command = f"timeout --preserve-status -s INT 5 {command} || test $? = 130"
    run(stack, folder, command)


def test_files_are_ingested_and_pruned(stack: Stack, folder: Path, origin: FileServer) -> None:
    ingest, piped = code_block(MIRROR, "", "--no-wait").splitlines()
    assert "1 URLs: 1 stored" in "\n".join(run(stack, folder, ingest))
    run(stack, folder, piped)
    eventually(lambda: "/picture.jpg" in origin.asked, SECONDS, "what nobody waited for is fetched too")
    run(stack, folder, code_block(MIRROR, "", "prune --days"))


def test_speeds_are_sent_from_a_shell(stack: Stack, folder: Path, token: str) -> None:
    answers = run(stack, folder, code_block(API, "", "--data-binary @speeds.csv"), TOKEN=token)
    plain, packed = decode(answers)
    assert (plain["rows"], packed["rows"], packed["changed"]) == (2, 2, 0)


def test_speeds_are_sent_from_python_and_as_json_lines(stack: Stack, token: str) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(code_block(API, "python", "import requests").replace(SITE, stack.base_url), {"token": token})
    assert printed.getvalue().endswith("segments changed\n")
    answer = requests.post(
        f"{stack.base_url}/api/layers/roads/speeds",
        code_block(API, "json", '"segment_id": "a-13"'),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"},
        timeout=SECONDS,
    )
    assert answer.json()["rows"] == 2


def test_tiles_are_made_stale(stack: Stack, folder: Path, token: str) -> None:
    answers = decode(run(stack, folder, code_block(API, "", "layers/roads/expire"), TOKEN=token))
    assert [answer["layer"] for answer in answers] == ["roads", "roads"]


def test_urls_are_reported(stack: Stack, folder: Path, token: str, origin: FileServer) -> None:
    block = code_block(API, "", "/api/resources -d")
    for named in ("https://images.example.org", "https://example.org"):
        block = block.replace(named, origin.url)
    [answer] = decode(run(stack, folder, block, TOKEN=token))
    shown = json.loads(code_block(API, "json", '"is_new"'))
    assert answer.keys() == shown.keys()
    assert [url["status"] for url in answer["urls"]][2] == "refused"


def test_a_feed_is_added_changed_and_looked_at(stack: Stack, folder: Path, token: str, origin: FileServer) -> None:
    add, change, look = code_block(API, "", "/api/feeds \\").replace("\\\n", "").splitlines()
    [added] = decode(run(stack, folder, add.replace("https://blog.example.org/", f"{origin.url}/blog"), TOKEN=token))
    changed, health = decode(
        run(stack, folder, "\n".join([change, look]).replace("blog-example-org", added["slug"]), TOKEN=token)
    )
    assert (changed["title"], health["slug"]) == ("A blog", added["slug"])


@pytest.mark.parametrize("command", code_block(API, "", "create_token sensors").splitlines())
@pytest.mark.usefixtures("roads")
def test_tokens_are_issued(stack: Stack, folder: Path, command: str) -> None:
    command = command.replace("roads trams", "roads").replace("ann", "admin")
    assert manage(stack, folder, command).strip().startswith("tarry_")


def test_the_processes_are_listed(stack: Stack) -> None:
    listed = carry_out(stack, code_block(OPERATIONS, "", "supervisord.conf status")).splitlines()
    assert {"main", "retry", "fetch", "state"} <= {line.split()[0].partition(":")[2] for line in listed}
    assert {line.split()[1] for line in listed} <= {"RUNNING", "EXITED"}, "some of them end, as the announcement does"


def test_queues_and_evictions_are_read_from_redis(stack: Stack) -> None:
    waiting, evicted = carry_out(stack, code_block(OPERATIONS, "", "redis-cli")).splitlines()
    assert waiting.isdigit()
    assert re.fullmatch(r"evicted_keys:\d+", evicted.strip())


def test_an_upgrade_migrates_and_collects_static_files(stack: Stack) -> None:
    """Without its first lines, which would change the checkout that all tests run in."""
    pull, setup, *others = code_block(OPERATIONS, "", "git pull").splitlines()
    assert (pull, setup) == ("git pull", "./setup.sh")
    answers = carry_out(stack, "\n".join(others))
    assert "No migrations to apply." in answers
    assert "static file" in answers


def test_another_host_for_waiting_agrees_with_the_other_settings(stack: Stack, folder: Path) -> None:
    block = code_block(OPERATIONS, "", "RETRY_AFTER_SERVER=https://wait")
    assert "no issues" in "\n".join(run(stack, folder, f"{block} manage.py check"))


def test_another_fetcher_does_the_work_of_the_sites_own_until_term_ends_it(
    stack: Stack, folder: Path, origin: FileServer
) -> None:
    origin.files["/fetched"] = b"by the other one"
    (folder / "more.txt").write_text(f"{origin.url}/fetched\n")
    stack.stop("fetch")
    command = ["setpriv", "--pdeathsig", "KILL", "bash", "-ec", f"exec .venv/bin/{code_block(FETCHING, '', '--slots')}"]
    try:
        with subprocess.Popen(command, cwd=ROOT, env=stack.managed()) as fetcher:
            assert "1 URLs: 1 stored" in manage(stack, folder, "ingest more.txt")
            fetcher.terminate()
            assert fetcher.wait(SECONDS) == 0
    finally:
        stack.begin("fetch")
        stack.wait_until_healthy()


@pytest.mark.no_database
def test_a_service_manager_starts_and_ends_a_site() -> None:
    site = Stack(SMALL="1", FEEDS_PUSH="0")
    block = code_block(OPERATIONS, "", "PORT=8000 PUBLIC_URL").replace("PORT=8000", f"PORT={site.port}")
    command = ["setpriv", "--pdeathsig", "TERM", "bash", "-ec", f"exec env {block}"]
    site.data.mkdir()
    try:
        with (
            site.output.open("wb") as output,
            subprocess.Popen(
                command, cwd=ROOT, env=site.environment, stdout=output, stderr=output, process_group=0
            ) as running,
        ):
            eventually(lambda: status_at(site, "tiles.example.org") == 200, SECONDS, "it is healthy")
            assert status_at(site, "other.example.org") == 421
            assert [status_at(site, "10.0.0.7", probe) for probe in ("/healthz/live", "/healthz/ready")] == [200, 200]
            running.terminate()
            running.wait(ENDING_SECONDS)
    finally:
        kill_holders_of_sockets(site.runtime)
        site.end()


def status_at(site: Stack, host: str, path: str = "/healthz") -> int:
    try:
        return requests.get(f"{site.base_url}{path}", headers={"Host": host}, timeout=SECONDS).status_code
    except requests.ConnectionError:
        return 0


def size_of(picture: Path) -> tuple[int, int]:
    with Image.open(picture) as image:
        return image.size


def decode(lines: list[str]) -> list[dict[str, Any]]:
    """The JSON answers of several calls, with or without a line's end between them."""
    text, decoder, found = "".join(lines).strip(), json.JSONDecoder(), []
    while text:
        answer, end = decoder.raw_decode(text)
        found.append(answer)
        text = text[end:].lstrip()
    return found
