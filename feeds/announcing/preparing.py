"""The fetchers' task that tells the hub of a change."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from resources.fetching import conf as fetch_conf
from resources.fetching.outcomes import Failed, Fetched, NotModified
from resources.fetching.requests import Fetch
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from ..composing import origins
from ..pushing import websub
from . import changed, pages

MOST_ANSWER_BYTES = 65_536

_log = logging.getLogger("tarry.feeds")


class Announce:
    """The task `feeds.announce`. Its arguments are the hub's URL, the path that has changed, and what row it is of."""

    obeys_robots = False
    """The hub is one of this site's own choice."""

    def fetch(self, *arguments: Argument) -> Fetch:
        return Fetch(
            str(arguments[0]),
            kind="hub",
            method="POST",
            body=websub.publication(f"{origins.site()}{arguments[1]}"),
            headers={"Content-Type": websub.FORM},
            limits=replace(fetch_conf.fast_limits(), max_body_bytes=MOST_ANSWER_BYTES),
        )

    def prepare(self, outcome: Fetched | NotModified | Failed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Nothing. Raises PreparationError where the hub did not take it: it is told again after a while."""
        if isinstance(outcome, Failed):
            _log.warning("the hub does not take what has changed", extra={"error": outcome.detail})
            _, path, row = map(str, arguments)
            changed.untold(row)
            pages.forget(row, path)
            raise PreparationError(f"The hub: {outcome.detail}.", retry_seconds=outcome.retry_after_seconds)
        return {}


TASK = Announce()
