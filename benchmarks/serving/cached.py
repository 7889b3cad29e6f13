"""A cached tile against a static file."""

from collections.abc import Iterator

from tests.support.stack import Stack

from .. import pairs
from ..figures import Figure, Note, median
from ..tiles.tile_requests import fetched, painted_tile

ROUNDS, ROUND_SECONDS = 15, 2
SHARE = 0.9


def measure() -> Iterator[Figure | Note]:
    """Requests a second for a tile from the hot cache ÷ for the same bytes as a static file of the same nginx."""
    pairs.tool()
    with Stack() as stack:
        tile = painted_tile(stack)
        body = fetched(stack, tile)
        (stack.data / "static" / "tile.png").write_bytes(body)
        urls = [stack.base_url + tile, stack.base_url + "/static/tile.png"]
        rounds = pairs.rates(urls, ROUNDS, ROUND_SECONDS)
    ratios = [hot / static for hot, static in rounds]
    yield Note(f"a tile of {len(body):,} bytes, ratios from {min(ratios):.2f} to {max(ratios):.2f}")
    for name, side in (("cached tile", 0), ("static file", 1)):
        yield Figure(f"{name}, median", median([pair[side] for pair in rounds]), "req/s")
    yield Figure("cached tile ÷ the same file as nginx static, median of pairs", median(ratios), at_least=SHARE)
