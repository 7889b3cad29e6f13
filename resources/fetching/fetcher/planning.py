"""What to ask for, on behalf of all who want it, with the headers that its host gets."""

from collections.abc import Sequence
from dataclasses import replace

from retry.errors import PreparationError

from .. import conf
from ..addressing.scopes import scopes
from ..errands import Errand
from ..keeping import hosts
from ..requests import Fetch


def plan(errands: Sequence[Errand]) -> tuple[Fetch | None, dict[Errand, PreparationError]]:
    """The request, None when nobody has one, and the errands that turn out to be impossible. Call it in a thread.

    Raises what a task raises that it should not.
    """
    planned: list[Fetch] = []
    impossible: dict[Errand, PreparationError] = {}
    for errand in errands:
        try:
            planned.append(conf.task(errand.task).fetch(*errand.arguments))
        except PreparationError as error:
            impossible[errand] = error
    if not planned:
        return None, impossible
    fetch = planned[0]
    if len(planned) > 1:  # what is not modified for one may be new to another
        fetch = replace(fetch, etag=None, last_modified=None)
    return replace(fetch, headers={**fetch.headers, **hosts.headers_of(scopes(fetch.url).host)}), impossible
