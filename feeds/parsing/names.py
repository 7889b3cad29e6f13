"""Names of elements, whatever prefix and spelling of the namespace a feed uses. PURE."""

from collections.abc import Callable

_SPELLINGS = {
    "": (
        "http://purl.org/rss/1.0/",
        "http://my.netscape.com/rdf/simple/0.9/",
        "http://channel.netscape.com/rdf/simple/0.9/",
        "http://backend.userland.com/rss2",
        "http://backend.userland.com/rss",
        "http://blogs.law.harvard.edu/tech/rss",
        "http://my.netscape.com/publish/formats/rss-0.91.dtd",
        "http://purl.org/net/rss1.1#",
    ),
    "atom": ("http://www.w3.org/2005/atom", "https://www.w3.org/2005/atom", "http://purl.org/atom/ns#"),
    "content": ("http://purl.org/rss/1.0/modules/content/",),
    "dc": ("http://purl.org/dc/elements/1.1/", "http://purl.org/dc/elements/1.0/"),
    "dcterms": ("http://purl.org/dc/terms/",),
    "itunes": ("http://www.itunes.com/dtds/podcast-1.0.dtd", "http://example.com/dtds/podcast-1.0.dtd"),
    "media": ("http://search.yahoo.com/mrss/", "http://search.yahoo.com/mrss"),
    "georss": ("http://www.georss.org/georss", "http://www.georss.org/georss/10"),
    "geo": ("http://www.w3.org/2003/01/geo/wgs84_pos#",),
    "gml": ("http://www.opengis.net/gml",),
    "source": ("https://source.scripting.com/", "http://source.scripting.com/"),
    "rdf": ("http://www.w3.org/1999/02/22-rdf-syntax-ns#",),
    "xhtml": ("http://www.w3.org/1999/xhtml",),
    "xml": ("http://www.w3.org/xml/1998/namespace",),
    "slash": ("http://purl.org/rss/1.0/modules/slash/",),
    "wfw": ("http://wellformedweb.org/commentapi/",),
}
_PREFIXES = {spelling: prefix for prefix, spellings in _SPELLINGS.items() for spelling in spellings}


def usual_namespace(prefix: str) -> str:
    """What a prefix most probably stands for that is used and not declared."""
    known = _SPELLINGS.get(prefix.lower())
    return known[0] if known and prefix else f"urn:undeclared:{prefix}"


def naming(root_tag: str) -> Callable[[object], str]:
    """What gives the names of a document's elements: `title`, `atom:title`, `dc:date`; lower case.

    Elements of a namespace that nobody knows have an empty name, unless it is the root's own: tools have put RSS
    into many. Comments and the like have none either.
    """
    unknown = root_tag.rpartition("}")[0][1:].lower()
    unknown = "" if unknown in _PREFIXES else unknown
    known: dict[object, str] = {}

    def name(tag: object) -> str:
        found = known.get(tag)
        if found is None:
            found = _name(tag, unknown) if isinstance(tag, str) else ""
            if len(known) < 1000:  # a feed can invent names without end
                known[tag] = found
        return found

    return name


def _name(tag: str, own: str) -> str:
    namespace, _, local = tag.rpartition("}")
    namespace = namespace[1:].lower()
    if not namespace or namespace == own:
        return local.lower()
    prefix = _PREFIXES.get(namespace)
    if prefix is None:
        return ""
    return f"{prefix}:{local.lower()}" if prefix else local.lower()
