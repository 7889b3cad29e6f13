"""What the fields of a layer of another server's tiles may hold."""

from collections.abc import Iterator
from dataclasses import dataclass

from resources.tiles.errors import LayerError

from . import conf, templates


@dataclass(frozen=True, slots=True)
class Given:
    """The fields as they were given; numbers are None where what was given is none."""

    upstream: str
    style: object
    min_zoom: int | None
    fresh_seconds: float | None
    most_fresh_seconds: float | None


def mistakes(given: Given) -> dict[str, str]:
    """What is wrong with them, by field. Asks no DNS and no server."""
    return dict(_mistakes(given))


def mistakes_without(upstream: str) -> dict[str, str]:
    """The same for a layer of any other kind."""
    if not upstream:
        return {}
    return {"upstream": "Only tiles of another server have an address. Choose that kind, or leave this empty."}


def _mistakes(given: Given) -> Iterator[tuple[str, str]]:
    try:
        template = templates.parse(given.upstream)
    except LayerError as error:
        yield "upstream", str(error)
    else:
        if why := template.refusal(conf.guard()):
            yield "upstream", f"This site does not fetch from there: {why}. FETCH_ALLOW_PRIVATE has exceptions."
        if template.has_quadkey and given.min_zoom == 0:
            yield "min_zoom", "Zoom 0 has no quadkey: the smallest zoom is 1."
    if given.style:
        yield "style", "Tiles of another server have no style: they are shown as they come."
    least, most = given.fresh_seconds, given.most_fresh_seconds
    if least is not None and most is not None and most < least:
        yield "most_fresh_seconds", "This is below the fresh seconds, which are the least."
