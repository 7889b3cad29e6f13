"""Automatic pre-warming on the whole site, with no setting changed: beat's task is sent before its time."""

import re
from pathlib import Path

import requests

from resources.staticmap import StaticMap

from ..support.crowd import Crowd
from ..support.layers import load_line
from ..support.stack import Stack, eventually

RUN = "from celery import current_app; current_app.send_task('resources.prewarm', queue='work', ignore_result=True)"
MAKE_ADMIN = "from django.contrib.auth.models import User; User.objects.create_superuser('warm', password='secret')"
RUNS = "/admin/resources/prewarmrecord/"
MORE_THAN_OTHERS = 200
"""Requests for a tile; around the most popular ones alone tiles are prepared."""
BEHIND_OTHERS_SECONDS = 180
"""Other flows' popular content goes before, and it is prepared while no other process wants the processor."""


def test_what_lies_around_a_region_that_people_look_at_is_there_before_they_look(
    stack: Stack, crowd: Crowd, slug: str, tmp_path: Path
) -> None:
    load_line(stack, slug, tmp_path)
    visits = crowd.send([f"/tiles/{slug}/8/100/127.png"] * MORE_THAN_OTHERS).result(30)
    assert {visit.status for visit in visits} == {200}
    eventually(lambda: popularity(stack, "tile", f"tile:{slug}:8:100:127:png") > MORE_THAN_OTHERS / 2, 30, "counted")
    looked_at = tiles_of(stack, slug)

    def is_prepared() -> bool:
        stack.manage("shell", "-c", RUN)  # it does nothing while other work waits
        return {zoom_of(tile) for tile in tiles_of(stack, slug) - looked_at} == {7, 8, 9}

    eventually(is_prepared, BEHIND_OTHERS_SECONDS, "tiles of this zoom and of those beside it are prepared")
    with signed_in(stack) as admin:
        eventually(lambda: "tile" in prepared_kinds(stack, admin), 30, "the admin shows what was prepared")
        before = found_ever(stack, admin)
        for tile in tiles_of(stack, slug) - looked_at:
            assert crowd.visit(tile).statuses == [200], "nobody waits"
        eventually(lambda: found_ever(stack, admin) > before, 30, "the admin shows what it spared")


def test_static_maps_have_a_popularity(stack: Stack, crowd: Crowd, slug: str, tmp_path: Path) -> None:
    load_line(stack, slug, tmp_path)
    asked = {"layers": slug, "center": "0.5,1", "zoom": "3", "size": "30x20"}
    key = StaticMap.read({name: [value] for name, value in asked.items()}).content_key
    query = "&".join(f"{name}={value}" for name, value in reversed(asked.items()))
    assert crowd.visit(f"/staticmap?{query}").status == 200
    eventually(lambda: popularity(stack, "staticmap", key) > 0, 30, "the picture is counted, however it is asked for")


def popularity(stack: Stack, kind: str, key: str) -> float:
    return stack.state.zscore(f"retry:{{0}}:popular:{kind}", key) or 0.0


def tiles_of(stack: Stack, slug: str) -> set[str]:
    """The addresses of the tiles in the cache."""
    keys = (key.decode().split(":") for key in stack.cache.scan_iter(f"retry:content:tile:{slug}:*"))
    return {f"/tiles/{slug}/{z}/{x}/{y}.{image_format}" for *_, z, x, y, image_format in keys}


def zoom_of(tile: str) -> int:
    return int(tile.split("/")[3])


def signed_in(stack: Stack) -> requests.Session:
    stack.manage("shell", "-c", MAKE_ADMIN)
    session, address = requests.Session(), f"{stack.base_url}/admin/login/"
    session.get(address, timeout=30)
    sent = {"username": "warm", "password": "secret", "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    session.post(address, sent, headers={"Referer": address}, timeout=30)
    return session


def table(stack: Stack, admin: requests.Session) -> dict[str, list[int]]:
    """The numbers of the page by kind: contents prepared, requests of the last day, and ever."""
    page = admin.get(f"{stack.base_url}{RUNS}", timeout=30).text
    rows = re.findall(r'<th scope="row">(\w+)</th>((?:<td>[\d,]+</td>)+)', page)
    return {kind: [int(one.replace(",", "")) for one in re.findall(r"[\d,]+", cells)] for kind, cells in rows}


def prepared_kinds(stack: Stack, admin: requests.Session) -> set[str]:
    return {kind for kind, numbers in table(stack, admin).items() if numbers[0]}


def found_ever(stack: Stack, admin: requests.Session) -> int:
    return table(stack, admin)["tile"][2]
