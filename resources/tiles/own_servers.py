"""Own servers: servers of upstream tiles of which a layer says that they are the operator's own.

Each has a number of requests in flight, which replaces the learnt rate there. It is a limit of the fetchers' domain
below those that an admin sets for the domain.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress

from django.db import Error as DatabaseError

from resources.fetch import host_settings
from retry.errors import StoreUnavailable

from .errors import LayerError
from .models import Layer
from .upstream.templates import parse_template

_log = logging.getLogger("tarry.layers")


def apply_own_servers() -> None:
    """Puts what layers say into force, and withdraws what none says any more. Raises StoreUnavailable."""
    host_settings.set_own_servers(find_own_servers)


def apply_soon() -> None:
    """Does the same; if a store is away, the periodic task makes up for it."""
    try:
        apply_own_servers()
    except (StoreUnavailable, DatabaseError) as error:
        _log.info("the limits of own servers wait", extra={"error": str(error)})


def find_own_servers() -> Mapping[str, int]:
    """Returns the most requests in flight by the domain of each own server: of several layers, the least counts.

    The subdomains of an address share its number: they are names of one server.
    """
    found: dict[str, int] = {}
    for text, in_flight in Layer.objects.with_own_server().values_list("upstream", "upstream_in_flight"):
        assert in_flight is not None
        with suppress(LayerError):  # a layer that is left out everywhere
            scopes = parse_template(text).scopes
            for scope in scopes:
                each = max(1, in_flight // len(scopes))
                found[scope] = min(each, found.get(scope, each))
    return found
