"""What a fetcher remembers of the URLs that it asks for."""

from resources.mirroring.gathering.asked import Asked
from resources.mirroring.gathering.wanted import Wanted
from resources.mirroring.knowing.found import Source


def wanted(name: str) -> Wanted:
    return Wanted(Source(name, f"http://a.example/{name}", "a.example"), None)


def test_what_was_noted_is_taken_once() -> None:
    asked = Asked()
    asked.note(("url", "a"), wanted("a"))
    assert asked.take(("url", "a")) == wanted("a")
    assert asked.take(("url", "a")) is None


def test_the_oldest_makes_room() -> None:
    asked = Asked(most=2)
    for name in ("a", "b", "a", "c"):
        asked.note(("url", name), wanted(name))
    assert [asked.take(("url", name)) is None for name in ("a", "b", "c")] == [False, True, False]
