"""A read-only database: the answers of the admin."""

import sqlite3
from contextlib import closing

import pytest
import requests

from ..support.stack import Stack

pytestmark = pytest.mark.no_database

PERSON = {"Sec-Fetch-Mode": "navigate"}
MAKE_ADMIN = "from django.contrib.auth.models import User; User.objects.create_superuser('locked', password='secret')"


def test_the_admin_says_when_to_come_again(stack: Stack) -> None:
    stack.manage("shell", "-c", MAKE_ADMIN)
    address = f"{stack.base_url}/admin/login/"
    [database] = stack.data.glob("*.sqlite3")
    with requests.Session() as visitor, closing(sqlite3.connect(database, isolation_level=None)) as other:
        visitor.get(address, timeout=30)
        sent = {"username": "locked", "password": "secret", "csrfmiddlewaretoken": visitor.cookies["csrftoken"]}
        other.execute("BEGIN IMMEDIATE")
        refused = visitor.post(address, sent, headers=PERSON, timeout=30)
        other.execute("ROLLBACK")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "Not available now" in refused.text
        assert visitor.post(address, sent, headers=PERSON, timeout=30).url.endswith("/admin/")
