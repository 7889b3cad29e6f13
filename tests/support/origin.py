"""A task for tests: fetched bodies become content unchanged, and failures become failures."""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread, current_thread

from resources.fetch import conf
from resources.fetch.http.messages import Fetched, FetchFailed, FetchRequest, NotModified
from resources.fetch.task import PreparedContents
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument, Work


class Page:
    """`(url, content key)`. In the URL, `unplanned` and `unprepared` make it fail; `promised` gives a future."""

    def __init__(self, *, obeys_robots: bool = False, at_once: bool = False, sends_secrets: bool = False) -> None:
        self.obeys_robots = obeys_robots
        self.at_once = at_once
        self.sends_secrets = sends_secrets
        self.called_by: list[Thread] = []

    def fetch(self, *arguments: Argument) -> FetchRequest:
        self.called_by.append(current_thread())
        url = str(arguments[0])
        if "unplanned" in url:
            raise PreparationError("Not to be had.", status=404)
        return FetchRequest(url, limits=conf.fast_limits(), slow_limits=conf.slow_limits())

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> PreparedContents:
        self.called_by.append(current_thread())
        if "promised" in str(arguments[0]):
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(self._prepare, outcome, *arguments)
        return self._prepare(outcome, *arguments)

    def _prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        assert not isinstance(outcome, NotModified)
        if isinstance(outcome, FetchFailed):
            raise PreparationError(outcome.detail, status=504 if outcome.failure.value == "too slow" else 502)
        if "unprepared" in outcome.head.url:
            raise ZeroDivisionError
        if "unstorable" in outcome.head.url:
            return {str(arguments[1]): Prepared("no bytes", "text/plain", 60, 600)}  # type: ignore[arg-type]
        return {str(arguments[1]): Prepared(outcome.body.read(), "text/plain", 60, 600)}


TASK = Page()
OBEDIENT = Page(obeys_robots=True)
QUICK = Page(at_once=True)
TRUSTED = Page(sends_secrets=True)


class ReaderPage(Page):
    """A page that is for one reader, named by the content key."""

    def identify(self, *arguments: Argument) -> str:
        return str(arguments[1])


OF_READER = ReaderPage()


class HandedPage(Page):
    """A page that hands its answers over: they are stored when `store` is called for the URL."""

    def __init__(self) -> None:
        super().__init__(at_once=True)
        self._handed: dict[str, tuple[Fetched, str, Future[Mapping[str, Prepared]]]] = {}

    def hand_over(self, outcome: Fetched, *arguments: Argument) -> Future[Mapping[str, Prepared]]:
        stored = Future[Mapping[str, Prepared]]()
        self._handed[str(arguments[0])] = outcome, str(arguments[1]), stored
        return stored

    @property
    def handed(self) -> list[str]:
        """The URLs whose answers wait to be stored."""
        return list(self._handed)

    def store(self, url: str) -> None:
        outcome, key, stored = self._handed.pop(url)
        stored.set_result({key: Prepared(outcome.body.read(), "text/plain", 60, 600)})


HANDED = HandedPage()


def page_work(url: str, name: str = "page") -> Work:
    return Work(f"fetch:{name}", "page", "fetch.fast", "fetch.refresh", "tests.page", (url, f"content:{name}"))
