"""No field of one client's header changes what the next one gets from the whole site, nginx' cache included."""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from uuid import uuid4

import pytest
import requests

from ..support.stack import Stack

EVIL = "evil.example"
FIELDS: Mapping[str, Mapping[str, str]] = {
    "nothing": {},
    "a proxy's words": {
        "X-Forwarded-Host": EVIL,
        "X-Forwarded-Proto": "gopher",
        "X-Forwarded-For": EVIL,
        "X-Forwarded-Port": "1",
        "X-Forwarded-Prefix": f"/{EVIL}",
        "Forwarded": f"host={EVIL};proto=gopher",
        "X-Host": EVIL,
        "Via": f"1.1 {EVIL}",
    },
    "another address": {"X-Original-URL": f"/{EVIL}", "X-Rewrite-URL": f"/{EVIL}", "X-Script-Name": f"/{EVIL}"},
    "another method": {"X-HTTP-Method-Override": "DELETE", "X-Method-Override": "POST"},
    "nginx' own words": {
        "X-Accel-Redirect": f"/{EVIL}",
        "X-Accel-Expires": "3600",
        "X-Front": "returned",
        "X-Ticket": EVIL,
        "X-Delivered-Cache-Control": EVIL,
        "X-Bucket-Link": f"http://{EVIL}/",
    },
    "another site": {"Origin": f"https://{EVIL}", "Referer": f"https://{EVIL}/"},
    "a person": {"Sec-Fetch-Mode": "navigate", "Accept": "text/html", "Accept-Language": "x-evil"},
    "what is wanted": {"Accept": "image/x-evil", "Accept-Encoding": "x-evil", "Accept-Charset": "x-evil"},
    "a part": {"Range": "bytes=1-2"},
    "a condition": {"If-None-Match": "*", "If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"},
    "somebody": {"Cookie": f"sessionid={EVIL}", "Authorization": f"Bearer {EVIL}", "User-Agent": EVIL},
    "no cache": {"Cache-Control": "no-store, no-cache", "Pragma": "no-cache"},
    "not now": {"Prefer": "respond-async"},
}
ADDRESSES = ("/slow/{}", "/nowhere/{}", "/?{}", "/feeds/all.atom?q={}")
COMPARED = (
    "Content-Type",
    "Cache-Control",
    "Vary",
    "Location",
    "Content-Security-Policy",
    "Access-Control-Allow-Origin",
)


def said(answer: requests.Response) -> list[str]:
    """The header fields for caches and browsers, without their numbers: time passes."""
    return [re.sub("[0-9]+", "1", answer.headers.get(name, "")) for name in COMPARED]


@pytest.mark.no_database
def test_what_one_client_says_of_itself_is_nothing_to_the_next(stack: Stack) -> None:
    def answers(case: tuple[str, str]) -> requests.Response:
        url = f"{stack.base_url}{case[1].format(uuid4().hex)}"
        for _ in range(2):  # its content is there the second time
            requests.get(url, headers=FIELDS[case[0]], timeout=60)
        return requests.get(url, timeout=60)

    cases = list(product(FIELDS, ADDRESSES))
    with ThreadPoolExecutor(8) as threads:
        found = dict(zip(cases, threads.map(answers, cases), strict=True))
    for (who, address), answer in found.items():
        plain = found["nothing", address]
        assert answer.status_code == plain.status_code, (who, address)
        assert said(answer) == said(plain), (who, address)
        assert "evil" not in f"{answer.headers} {answer.text}", (who, address)
        assert "Set-Cookie" not in answer.headers
