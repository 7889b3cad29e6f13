"""What the address of a feed asks for, for the counts of traffic. PURE. Knows no feeds."""

from feeds.composing.asking import Asked
from resources.traffic.asked import Asked as Counted


def asked(address: str) -> Counted | None:
    """A feed or a combination in a format; None for what is neither. Searches and later pages count as the first.

    Noted is the feed that a program reads: neither what people look at nor combinations are.
    """
    page = Asked.read_path(address)
    if page is None:
        return None
    if page.is_combined:
        return Counted("feeds", page.format, page.key)
    return Counted("feed", page.format, page.key, noted="" if page.format == "html" else page.slug)
