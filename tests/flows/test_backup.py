"""A backup taken from a running site, and restored into an empty DATA_DIR, by the commands of docs/operations.md."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
import requests

from ..support import file_server
from ..support.crowd import Crowd
from ..support.documentation import carry_out, commands
from ..support.file_server import FileServer
from ..support.layers import load_line
from ..support.stack import Stack

pytestmark = pytest.mark.no_database
"""PostgreSQL has means of its own."""

PASSWORD = "open sesame"
ADD_FEED = f"""
from datetime import UTC, datetime
from feeds import addresses
from feeds import catalogue
address = addresses.read_address("http://ali:{PASSWORD.replace(" ", "%20")}@127.0.0.1:9/feed")
catalogue.add_feed(address, now=datetime.now(UTC))
"""
READ_PASSWORD = """
from feeds import credentials
from feeds.models import Feed
print(credentials.unseal_password(Feed.objects.get(user="ali")))
"""
BODY = b"mirrored once" * 10_000


@pytest.fixture
def origin() -> Iterator[FileServer]:
    with file_server.running() as server:
        server.files["/file"] = BODY
        yield server


def restored(backup: Path) -> Stack:
    """A site that was started on the backup."""
    site = Stack(SMALL="1")
    site.data.mkdir()
    carry_out(site, commands("rm -rf $DATA_DIR/blobs/served"), BACKUP=str(backup))
    return site


def test_what_was_backed_up_is_there_again_with_its_secrets(
    stack: Stack, crowd: Crowd, origin: FileServer, name: str, tmp_path: Path
) -> None:
    tile = load_line(stack, f"b{name[:8]}", tmp_path)
    signed = stack.manage("sign_url", f"{origin.url}/file").strip().removeprefix(stack.base_url)
    by_digest = f"/resources/{sha256(BODY).hexdigest()}"
    painted, mirrored = crowd.visit(tile), crowd.visit(signed)
    assert (painted.status, mirrored.body) == (200, BODY)
    token = stack.manage("create_token", name, "--mirror").strip()
    stack.manage("shell", "-c", ADD_FEED)
    backup = tmp_path / "backup"
    backup.mkdir()
    carry_out(stack, commands("cp -a $DATA_DIR/blobs"), BACKUP=str(backup))
    origin.files.clear()
    with restored(backup) as site, Crowd(site.base_url) as others:
        assert others.visit(tile).body == painted.body
        assert others.visit(signed).body == others.visit(by_digest).body == BODY
        assert site.manage("shell", "-v", "0", "-c", READ_PASSWORD).strip() == PASSWORD
        known = requests.get(
            f"{site.base_url}/api{by_digest}", headers={"Authorization": f"Bearer {token}"}, timeout=20
        )
        assert known.json()["size"] == len(BODY)
    assert origin.asked == ["/file"]
