"""The admin's pages of domains, as its tests read and press them."""

import re
from typing import Any

from django.test import Client

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits
from resources.fetch.models import FetchDomain
from retry import stores

from .admin_pages import said
from .frontier import HOST

LIST = "/admin/resources/fetchdomain/"


def page_of(row: FetchDomain) -> str:
    return f"{LIST}{row.pk}/change/"


def facts(text: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))


def form(**fields: Any) -> dict[str, Any]:
    return {"counting": "", "address": "", "delay_seconds": "", "in_flight": "", "bytes_per_second": "", **fields}


def press(client: Client, row: FetchDomain, what: str, **sent: Any) -> list[str]:
    return said(client.post(f"{LIST}{row.pk}/act/{what}/", sent, follow=True))


def choose(client: Client, action: str, *rows: FetchDomain) -> list[str]:
    chosen = {"action": action, "_selected_action": [row.pk for row in rows]}
    return said(client.post(LIST, chosen, follow=True))


def limits(scope: str = HOST) -> DomainLimits:
    return stores.run_steps(queue.read_limits_in_force([scope]))[0].limits
