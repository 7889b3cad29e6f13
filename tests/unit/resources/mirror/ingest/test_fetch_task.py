"""A fetcher's memory of requested URLs."""

from resources.mirror.ingest.fetch_task import InFlight
from resources.mirror.ingest.settlement import FetchTarget
from resources.mirror.ingest.url_outcome import SourceUrl


def wanted(name: str) -> FetchTarget:
    return FetchTarget(SourceUrl(name, f"http://a.example/{name}", "a.example"), None)


def test_what_was_noted_is_taken_once() -> None:
    asked = InFlight()
    asked.note(("url", "a"), wanted("a"))
    assert asked.take(("url", "a")) == wanted("a")
    assert asked.take(("url", "a")) is None


def test_the_oldest_makes_room() -> None:
    asked = InFlight(most=2)
    for name in ("a", "b", "a", "c"):
        asked.note(("url", name), wanted(name))
    assert [asked.take(("url", name)) is None for name in ("a", "b", "c")] == [False, True, False]
