"""Parsers on any input of strangers: each reads it or refuses it as documented, and soon.

Sound samples are damaged, with pieces that parsers of their kind have stumbled over; noise by itself gets nowhere.
Parts of them are repeated, as often as the size limit allows: a parser that backtracks takes years then. Other parsers
have such a test beside them.
"""

import gzip
import io
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import brotli
import pytest
from backports import zstd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from feeds import addresses, opml
from feeds.errors import FeedAddressError, OpmlError, PageQueryError, ParseError
from feeds.pages.query import PageQuery
from feeds.parser import charset, discovery, reader
from feeds.push import rsscloud, websub
from resources.fetch.http import compression, limit_scopes
from resources.fetch.http.messages import FetchError
from resources.fetch.worker import robots
from resources.mirror import delivery, public_files
from resources.mirror.canonical import clearurls
from resources.mirror.errors import RulesError, ThumbnailError, UnreadableImageError
from resources.mirror.media import pictures, sniff, thumbnails
from resources.mirror.reports import bulk
from resources.tiles import styles
from resources.tiles.data import geojson, speeds
from resources.tiles.errors import LayerError, SpeedsError
from retry import headers

from ..support import feed_corpus
from ..support.geojson import collection
from ..support.processor_time import within
from . import files

EXAMPLES = 25
LONGEST_SECONDS = 2
"""Of processor time, for an example."""

TOKENS = [
    *(b"<", b">", b"&", b"'", b'"', b"\\", b"/", b"?", b"#", b"%", b"%00", b"%ff", b";", b",", b"\r\n", b"\0", b"\x7f"),
    *(b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u0661".encode(), b"-", b"1e999", b"NaN", b"null", b"9" * 5000),
    *(b"[" * 3000, b'{"a":' * 3000, b"<a>" * 500, b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"<![CDATA[", b"http://["),
    *(b"]]>", b"<!--", b"<?", b"xmlns:", b"&#0;", b"&#xFFFFFFFF;", b"<item>", b"</item>", b"<entry>", b"<channel>"),
    *(b'type="xhtml"', b'mode="base64"', b' xml:base="http://[x"', b'<link href="http://[">', b"\\ud800"),
]
FEEDS = tuple(feed_corpus.data(name) for name in feed_corpus.NAMES)
BOX = pictures.ThumbnailBox(9, 9, "contain", "png")
DIGEST = "ab" * 32
LINE = {"type": "LineString", "coordinates": [[0, 0], [1, 1.5], [2, -3]]}
FEATURE = {"type": "Feature", "id": "a", "properties": {"speed": 5, "free_flow": 50, "weight": 2}, "geometry": LINE}
OTHER = {**FEATURE, "id": 2}
RING = [[0, 0], [1, 0], [1, 1], [0, 0]]
AREA = {**FEATURE, "id": 3, "geometry": {"type": "Polygon", "coordinates": [RING, RING]}}
AREAS = {**FEATURE, "geometry": {"type": "MultiPolygon", "coordinates": [[RING], [RING, RING]]}}
POINT = {**FEATURE, "geometry": {"type": "MultiPoint", "coordinates": [[0, 0], [1, 1]]}}
PROVIDERS = {"providers": {"a": {"urlPattern": "^https?://a", "rules": ["b"], "exceptions": ["c"], "rawRules": ["d"]}}}


@dataclass(frozen=True, slots=True)
class Parser:
    """`read` takes bytes, and may raise the named errors. Repetitions make no more than `most_bytes`."""

    read: Callable[[bytes], object]
    samples: tuple[bytes, ...]
    may_raise: tuple[type[Exception], ...] = ()
    most_bytes: int = 50_000


def of_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode("utf-8", "surrogateescape"))


def of_json(read: Callable[[Any], object]) -> Callable[[bytes], object]:
    """Reads valid JSON only."""

    def found(data: bytes) -> object:
        with suppress(ValueError, RecursionError):
            return read(json.loads(data))
        return None

    return found


def page_of_feeds(text: str) -> object:
    path, _, query = text.partition("?")
    return PageQuery.read(path, parse_qs(query))


def read_apart(text: str) -> tuple[str, dict[str, list[str]]]:
    """The name of a thumbnail, and how it fits."""
    name, _, fit = text.partition("?")
    return name, {"fit": [fit]}


def unpacked(coding: str) -> Callable[[bytes], object]:
    def found(data: bytes) -> object:
        decoder = compression.build_decoder(coding)
        size = sum(map(len, decoder.feed(data)))
        decoder.finish()
        return size

    return found


PARSERS = {
    "a feed": Parser(
        lambda data: reader.parse_feed(data, "", feed_corpus.URL, feed_corpus.FETCHED_AT), FEEDS, (ParseError,)
    ),
    "a page that names feeds": Parser(
        lambda data: (discovery.discover_feeds(data, feed_corpus.URL), discovery.discover_hubs(data, feed_corpus.URL)),
        (
            b'<base href="/x/"><link rel="alternate hub self" type="application/atom+xml" href="a.atom"><a href="f">x',
            *FEEDS,
        ),
    ),
    "a list of feeds": Parser(
        opml.parse_opml,
        (b'<opml version="2.0"><body><outline text="a" xmlUrl="http://a.example/"/></body></opml>',),
        (OpmlError,),
    ),
    "the address of a feed": Parser(
        of_text(addresses.read_address), (b"feed://a:b@a.example:80/c?d=e#f", b"a.example/feed"), (FeedAddressError,)
    ),
    "the address of a page of feeds": Parser(
        of_text(page_of_feeds), (b"/feeds/a.atom?q=b&since=2026-01-01&limit=3", b"/feeds/"), (PageQueryError,)
    ),
    "a ping of a cloud by XML-RPC": Parser(
        rsscloud.read_first_text, (rsscloud.write_call("a", ["http://a.example/", 1, ["b"]]),), (ValueError,)
    ),
    "a cloud's answer by XML-RPC": Parser(
        lambda data: rsscloud.read_registration_answer(data, was_called=True),
        (
            rsscloud.write_acceptance(),
            b"<methodResponse><fault><value><struct><member><name>faultString</name><value>a</value>",
        ),
    ),
    "a cloud's answer": Parser(
        lambda data: rsscloud.read_registration_answer(data, was_called=False),
        (b'<notifyResult success="true" msg="a"/>', b'{"success": false, "msg": "a"}'),
    ),
    "links of a hub": Parser(
        of_text(lambda text: websub.find_linked_addresses(("hub", "self"), [text], feed_corpus.URL)),
        (b'<https://hub.example/>; rel="hub self"; anchor=x, </b> ; rel = hub;title="a\\"b"',),
        most_bytes=websub.MAX_LINK_FIELDS_CHARACTERS,
    ),
    "how a client wants to be answered": Parser(
        of_text(headers.read_preferences),
        (b'respond-async; a = ; b="c\\"d" ;, wait = 10', b"wait=5; a= ;b"),
        most_bytes=headers.MAX_PREFER_CHARACTERS,
    ),
    "a character set": Parser(
        of_text(lambda text: charset.decode_document(b"<rss>\xff</rss>", text)),
        (b'text/xml; charset= "utf-8"', b"text/xml; charset=            ;"),
        most_bytes=16_000,
    ),
    "a hub's signature": Parser(
        of_text(lambda text: websub.is_signature_valid(text, b"a", "b")),
        (websub.sign_body(b"a", "b").encode(), b"sha1=00ff"),
    ),
    "lines": Parser(lambda data: geojson.read_features(data, "lines"), (collection(FEATURE, OTHER),), (LayerError,)),
    "areas": Parser(lambda data: geojson.read_features(data, "areas"), (collection(AREA, AREAS),), (LayerError,)),
    "points": Parser(lambda data: geojson.read_point_features(data, "weight"), (collection(POINT),), (LayerError,)),
    "a style": Parser(
        of_json(lambda held: [styles.parse_style(kind, held) for kind in ("lines", "areas", "points")]),
        (b'{"widths": {"10": 2.5}, "colours": {"green": "#00ff0080"}, "thresholds": [0.9, 0.5, 0.2]}',),
        (LayerError,),
    ),
    "speeds as CSV": Parser(
        speeds.read_csv_rows,
        (b'segment_id,speed_kmh,free_flow_kmh,measured_at\na,1.5,50,2026-01-01T00:00:00Z\n"b",2,3,\n',),
        (SpeedsError,),
    ),
    "speeds as JSON lines": Parser(
        speeds.read_json_rows,
        (b'{"segment_id": "a", "speed_kmh": 1.5, "free_flow_kmh": 50, "measured_at": "2026-01-01T00:00:00Z"}\n\n',),
        (SpeedsError,),
    ),
    "rules of ClearURLs": Parser(of_text(clearurls.parse_rules_file), (json.dumps(PROVIDERS).encode(),), (RulesError,)),
    "a list of URLs": Parser(lambda data: list(bulk.read_urls(io.BytesIO(data))), (b"# a\nhttp://a.example/\n\nb\n",)),
    "a mirrored file": Parser(sniff.recognise_content, tuple(files.PICTURES.values())),
    "an image": Parser(
        lambda data: pictures.render_thumbnail(io.BytesIO(data), BOX, 10_000),
        tuple(files.PICTURES.values()),
        (UnreadableImageError,),
    ),
    "the address of a mirrored file": Parser(
        of_text(public_files.classify_address),
        (f"/resources/{DIGEST}/9x9.png".encode(), b"/resources/YWJj/aHR0cDovL2E"),
    ),
    "the address of a thumbnail": Parser(
        of_text(lambda text: thumbnails.Thumbnail.read(DIGEST, *read_apart(text), 2048)),
        (b"320x240.webp?crop",),
        (ThumbnailError,),
    ),
    "a range": Parser(of_text(lambda text: delivery.select_range(text, "", '"a"', 100)), (b"bytes=5-9", b"bytes=-7")),
    "robots.txt": Parser(
        lambda data: robots.parse_crawl_delay(data, "Tarry"),
        (b"User-agent: *\nCrawl-delay: 5\nDisallow: /a*$\nRequest-rate: 1/5",),
    ),
    "a host or a path of one": Parser(
        of_text(limit_scopes.parse_scope), (b"a.example.com/path", b"[::1]:80"), (ValueError,)
    ),
    "a body packed by gzip": Parser(unpacked("gzip"), (gzip.compress(b"hello" * 99),), (FetchError,)),
    "a body packed by deflate": Parser(unpacked("deflate"), (zlib.compress(b"hello" * 99),), (FetchError,)),
    "a body packed by brotli": Parser(unpacked("br"), (brotli.compress(b"hello" * 99),), (FetchError,)),
    "a body packed by zstd": Parser(unpacked("zstd"), (zstd.compress(b"hello" * 99),), (FetchError,)),
}


@st.composite
def damaged(draw: st.DrawFn, samples: tuple[bytes, ...]) -> bytes:
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(data)))
        end = place + draw(st.integers(0, 9))
        data[place:end] = draw(st.sampled_from(TOKENS) | st.binary(max_size=6))
    return bytes(data)


@st.composite
def repetitive(draw: st.DrawFn, parser: Parser) -> bytes:
    """A sample with a repeated part, and often with a wrong end behind it."""
    data = draw(st.sampled_from(parser.samples))
    place = draw(st.integers(0, len(data) - 1))
    part = data[place : place + draw(st.integers(1, 12))]
    times = min(draw(st.integers(10, 5000)), max(parser.most_bytes - len(data), 0) // len(part))
    odd = draw(st.just(b"") | st.sampled_from([token for token in TOKENS if len(token) < 9]))
    return (data[:place] + part * times + odd + data[place + len(part) :])[: parser.most_bytes]


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@pytest.mark.filterwarnings("ignore")
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_it_is_read_or_refused(parser: Parser, data: st.DataObject) -> None:
    given_bytes = data.draw(damaged(parser.samples))
    with within(LONGEST_SECONDS), suppress(*parser.may_raise):
        parser.read(given_bytes)


# A slow sample is reported as found: to try shorter ones would take minutes.
@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@pytest.mark.filterwarnings("ignore")
@settings(
    max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
@given(data=st.data())
def test_what_repeats_itself_is_read_or_refused_as_soon(parser: Parser, data: st.DataObject) -> None:
    given_bytes = data.draw(repetitive(parser))
    with within(LONGEST_SECONDS), suppress(*parser.may_raise):
        parser.read(given_bytes)
