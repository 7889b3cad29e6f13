"""What to ask for, on behalf of all who want it, with the headers that its host gets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from retry.contents import Prepared
from retry.errors import PreparationError

from .. import conf
from ..addressing.scopes import scopes
from ..errands import Errand, is_at_once
from ..keeping import hosts
from ..requests import Fetch


@dataclass(slots=True)
class Plan:
    """The request, None when nobody has one; the errands that are impossible, and those that are done."""

    fetch: Fetch | None = None
    impossible: dict[Errand, PreparationError] = field(default_factory=dict)
    done: dict[Errand, Mapping[str, Prepared]] = field(default_factory=dict)


def plan(errands: Sequence[Errand]) -> Plan:
    """What to do about them. Call it in a thread. Raises what a task raises that it should not."""
    return _plan(errands, hosts.headers_of)


def plan_at_once(errands: Sequence[Errand]) -> Plan | None:
    """The same without a thread; None where somebody might have to wait. Raises as `plan` does."""
    known = hosts.snapshot.current()
    if known is None or not all(is_at_once(conf.task(errand.task)) for errand in errands):
        return None
    return _plan(errands, lambda host: known.get(host, hosts.NONE))


def _plan(errands: Sequence[Errand], headers_of: Callable[[str], Mapping[str, str]]) -> Plan:
    planned: list[Fetch] = []
    found = Plan()
    for errand in errands:
        try:
            what = conf.task(errand.task).fetch(*errand.arguments)
        except PreparationError as error:
            found.impossible[errand] = error
            continue
        if isinstance(what, Fetch):
            planned.append(what)
        else:
            found.done[errand] = what
    if planned:
        fetch = planned[0]
        if len(planned) > 1:  # what is not modified for one may be new to another
            fetch = replace(fetch, etag=None, last_modified=None, head_first=False)
        headers = headers_of(scopes(fetch.url).host)
        found.fetch = replace(fetch, headers={**fetch.headers, **headers}) if headers else fetch
    return found
