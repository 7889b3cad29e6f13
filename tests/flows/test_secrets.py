"""Secrets that pass through the site are in no log of any of its processes, after any outcome."""

import re
from secrets import token_urlsafe
from urllib.parse import urlsplit

import requests

from ..support import file_server
from ..support.stack import Stack, eventually


def sign_in(stack: Stack, password: str) -> requests.Session:
    session = requests.Session()
    address = f"{stack.base_url}/admin/login/"
    session.get(address, timeout=10)
    named = {"username": "admin", "password": password, "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    session.post(address, named, headers={"Referer": address}, timeout=10)
    return session


def written(stack: Stack) -> str:
    """All logs, without the line of the first password."""
    files = [stack.output, *(stack.data / "logs").iterdir()]
    text = "\n".join(path.read_text(errors="replace") for path in files if path.is_file())
    return "\n".join(line for line in text.splitlines() if not line.startswith("Administrator: "))


HOLD = """
import time
from django.db import transaction
from feeds.models import Feed
from tests.support.feed_subscriptions import subscription
feed = Feed.objects.get(slug="{slug}")
subscription(feed, token="{token}")
with transaction.atomic():
    Feed.objects.filter(pk=feed.pk).update(flagged_at=None)
    print("held", feed.url, flush=True)
    time.sleep(2)
"""
"""Subscribes a feed, and keeps everybody from writing to its row for two seconds."""


def ping_slowly(stack: Stack, slug: str, token: str) -> None:
    """A right ping, which waits for the database for longer than a second."""
    holder = stack.start_command("shell", "-c", HOLD.format(slug=slug, token=token))
    try:
        assert holder.stdout
        held = next(line for line in iter(holder.stdout.readline, "") if line.startswith("held "))
        told = {"url": held.split()[1]}
        assert requests.post(f"{stack.base_url}/rsscloud/{token}", told, timeout=10).status_code == 200
    finally:
        holder.communicate(timeout=20)


def test_no_log_has_them(stack: Stack) -> None:
    first = re.search(r"password: (\S+)", stack.output.read_text())
    assert first
    wrong, stranger, user, value, callback, typed, right = (token_urlsafe(20) for _ in range(7))
    token = stack.manage("create_token", "secrets", "--feeds").strip()
    session = sign_in(stack, first[1])
    assert "sessionid" in session.cookies
    assert "sessionid" not in sign_in(stack, wrong + "x" * 40_000).cookies  # so large that nginx takes it to the disk

    fields = {"Authorization": f"Bearer {token}"}
    with file_server.running() as origin:  # which does not have it
        url = f"http://anna:{user}@{urlsplit(origin.url).netloc}/feed?token={value}"
        added = requests.post(f"{stack.base_url}/api/feeds", json={"url": url}, headers=fields, timeout=10)
        health = f"{stack.base_url}/api/feeds/{added.json()['slug']}/health"
        eventually(lambda: requests.get(health, headers=fields, timeout=10).json()["failures"], 30, "it has failed")
        ping_slowly(stack, added.json()["slug"], right)
        assert requests.delete(health.removesuffix("/health"), headers=fields, timeout=10).ok

    refused = {"Authorization": f"Bearer {stranger}"}
    assert requests.post(f"{stack.base_url}/api/feeds", json={}, headers=refused, timeout=10).status_code == 401
    for kind in ("rsscloud", "websub"):
        requests.post(f"{stack.base_url}/{kind}/{callback}", f"url={typed}", timeout=10)
    requests.get(f"{stack.base_url}/admin/login/?next=/admin/", headers={"X-Long": typed * 1000}, timeout=10)

    log = written(stack)
    assert "/rsscloud/<str:token>" in log  # of the ping that took long
    sent = (first[1], wrong, token, stranger, user, value, callback, typed, right, session.cookies["sessionid"])
    assert [number for number, secret in enumerate(sent) if secret in log] == []
    assert stack.secret_key not in log
