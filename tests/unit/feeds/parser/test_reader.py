"""The corpus, read as it should be."""

from datetime import UTC, datetime

import pytest

from feeds.errors import ParseError
from feeds.parser.documents import Author, Cloud, Enclosure, EntrySource, ParsedCategory, Point
from tests.support import feed_corpus
from tests.support.feed_corpus import entry_of, parsed, read


@pytest.mark.parametrize(
    ("name", "expected"),
    [("rss-0.91.xml", "rss"), ("rss-0.90.rdf", "rdf"), ("atom-0.3.xml", "atom"), ("json-1.1.json", "json")],
)
def test_format_is_told(name: str, expected: str) -> None:
    assert parsed(name).format == expected


def test_reads_what_rss_says_of_a_feed() -> None:
    feed = parsed("rss-0.91.xml").feed
    assert (feed.title, feed.subtitle, feed.language) == ("Orchard Diary", "Apples, mostly", "en-gb")
    assert (feed.rights, feed.image) == ("The Orchard", "http://orchard.example.org/apple.png")
    assert feed.authors == (Author("Ada Pip", "editor@orchard.example.org"),)
    assert (feed.skip_hours, feed.skip_days) == ((0, 2, 3), (6,))
    assert parsed("rss-2.0.xml").feed.ttl_minutes == 90


def test_reads_cloud_hubs_and_addresses_of_a_feed() -> None:
    assert parsed("rss-0.92.xml").feed.cloud == Cloud("rpc.example.org", 5337, "/RPC2", "rssPleaseNotify", "xml-rpc")
    assert parsed("source.xml").feed.cloud_url == "https://cloud.example.org/pleaseNotify"
    assert parsed("source.xml").feed.self_link == "https://scripted.example.org/rss.xml"
    mixed = parsed("atom-in-rss.xml").feed
    assert mixed.hubs == ("https://hub-one.example.org/", "https://hub-two.example.org/")
    assert mixed.self_link == "https://mixed.example.org/feed"
    assert mixed.next_link == "https://mixed.example.org/feed?paged=2"
    assert parsed("itunes.xml").feed.new_address == "https://foghorn.example.org/new.xml"


def test_reads_an_entry_of_rss() -> None:
    entry = parsed("rss-2.0.xml").entries[0]
    assert entry.content == "<p>The <b>new</b> lamp is brighter.</p>"
    assert entry.authors == (Author("Kit Keeper", "keeper@lighthouse.example.org"),)
    assert entry.categories == (ParsedCategory("Repairs"), ParsedCategory("Light", "https://tags.example.org/"))
    assert entry.comments == "https://lighthouse.example.org/lamp#comments"
    assert entry.published == datetime(2020, 1, 1, 9, tzinfo=UTC)


def test_reads_an_entry_of_atom() -> None:
    entry = parsed("atom-1.0.xml").entries[0]
    assert entry.published == datetime(2020, 3, 1, 6, 0, 0, 250_000, tzinfo=UTC)
    assert entry.updated == datetime(2020, 3, 2, 9, tzinfo=UTC)
    assert (entry.summary, entry.content) == ("Wind &lt; 12 until noon", "<p>Wind from the <strong>west</strong>.</p>")
    assert entry.authors == (Author("Wanda Wind"), Author("Gus Gale", "gus@weather.example.org"))
    assert entry.categories[0] == ParsedCategory("storm", "https://weather.example.org/tags", "Storms")
    chart = Enclosure("https://weather.example.org/storm.png", "image/png", 4711, None, "The chart")
    assert entry.enclosures == (chart,)
    assert entry.comments == "https://weather.example.org/storm#replies"


def test_reads_what_older_atom_calls_otherwise() -> None:
    feed = parsed("atom-0.3.xml")
    assert feed.feed.authors == (Author("Ann Atom", "ann@atoms.example.org", "http://atoms.example.org/ann"),)
    assert feed.feed.subtitle == "From before the standard"
    assert feed.entries[0].title == "Escaped & marked up"
    assert feed.entries[1].content == "<p>In <b>Base64</b>.</p>"


def test_reads_inline_markup_with_any_prefix() -> None:
    entries = parsed("atom-xhtml.xml").entries
    assert entries[0].title == "Less than: <"
    assert 'href="https://xhtml.example.org/a?b=1&amp;c=2"' in entries[0].content
    assert entries[1].content == "<div><p>Prefixed <em>markup</em></p></div>"


def test_reads_json_feeds_of_both_versions() -> None:
    old, new = parsed("json-1.0.json"), parsed("json-1.1.json")
    assert old.feed.authors == (Author("Sal Salt", "", "https://ships.example.org/sal"),)
    assert old.entries[0].content == "Two masts.<br>Square sails &amp; flags."
    assert (old.entries[1].id, old.entries[1].link) == ("1", "https://feeds.example.org/1")
    assert (old.entries[1].summary, old.entries[1].content) == ("Three masts", "<p>A <b>barque</b></p>")
    assert new.feed.hubs == ("https://hub.example.org/",)
    assert new.feed.next_link == "https://listening.example.org/feed.json?page=2"
    assert new.entries[0].enclosures[0].seconds == 2400
    assert new.entries[0].content == "<p>Forty minutes. </p>"


def test_json_of_the_wrong_types_is_left_out() -> None:
    feed = parsed("json-odd.json")
    assert [entry.content for entry in feed.entries] == ["One", "<b>Two</b>", "half a ? character"]
    assert feed.entries[1].link == ""


def test_reads_the_namespaces_of_podcasts() -> None:
    newer, older = parsed("itunes.xml").entries
    assert newer.title == "Episode 2: Mist"
    assert newer.enclosures == (Enclosure("https://foghorn.example.org/2.mp3", "audio/mpeg", 12_345_678, 3723),)
    assert newer.image == "https://foghorn.example.org/2.jpg"
    assert newer.authors == (Author("Guest Star"),)
    assert older.content == "Only a summary."
    assert (older.enclosures[0].seconds, older.enclosures[0].length_bytes) == (754, None)


def test_reads_the_namespaces_of_media_and_places() -> None:
    film, picture = parsed("media.xml").entries
    assert [enclosure.title for enclosure in film.enclosures] == ["", "Free format"]
    assert film.enclosures[0].seconds == 120
    assert (film.image, film.content) == ("https://films.example.org/1.jpg", "A description in the group.")
    assert (picture.image, picture.enclosures) == ("https://films.example.org/2.png", ())
    points = [entry.point for entry in parsed("georss.xml").entries]
    assert points == [Point(45.256, -71.92), Point(-10.5, 120.25), Point(51.5, -0.125), None]


def test_reads_where_an_entry_was_taken_from() -> None:
    member = EntrySource("Member", "https://member.example.org/atom.xml", "https://member.example.org/")
    assert parsed("atom-source.xml").entries[0].source == member
    assert parsed("rss-0.92.xml").entries[0].source == EntrySource("Other Thoughts", "http://other.example.org/rss.xml")


def test_reads_all_creators_and_terms_of_dublin_core() -> None:
    creators, terms = parsed("dublin-core.xml").entries
    assert creators.authors == (Author("First Author"), Author("Second Author"))
    assert (creators.language, parsed("dublin-core.xml").feed.language) == ("en", "fr")
    assert (terms.published, terms.updated) == (datetime(2021, 2, 1, tzinfo=UTC), datetime(2021, 2, 2, tzinfo=UTC))


def test_content_is_the_fullest_text_and_summary_what_is_beside_it() -> None:
    both, only = parsed("content-encoded.xml").entries
    assert both.summary == "A short version […]"
    assert both.content.startswith("<p>A long version")
    assert "evil" not in both.content
    assert (only.summary, only.content) == ("", "<p>Escaped instead of CDATA.</p>")


def test_relative_addresses_are_resolved_by_what_is_said_and_else_by_the_entry() -> None:
    said = parsed("atom-xml-base.xml").entries
    assert said[0].link == "https://base.example.org/blog/2021/one"
    assert said[0].enclosures[0].url == "https://base.example.org/blog/2021/one.ogg"
    assert 'src="https://base.example.org/blog/2021/pictures/cat.png"' in said[0].content
    assert 'src="https://cdn.example.org/dog.png"' in said[1].content
    unsaid = parsed("relative-addresses.xml").entries[0]
    assert unsaid.link == "https://feeds.example.org/blog/1/"
    assert 'href="https://feeds.example.org/blog/1/more"' in unsaid.content


def test_addresses_of_other_schemes_are_left_out() -> None:
    feed = parsed("relative-addresses.xml")
    assert (feed.entries[1].link, feed.entries[1].enclosures) == ("", ())
    assert "javascript" not in feed.entries[1].content
    assert "data:" not in feed.entries[1].content
    assert feed.notes == ("Addresses left out, not http(s) or too long: 2.",)


def test_an_id_that_several_entries_share_is_none() -> None:
    feed = parsed("duplicate-ids.xml")
    assert [(entry.title, entry.id) for entry in feed.entries] == [("One", ""), ("Two", ""), ("Three", "other")]
    assert len(feed.notes) == 2


def test_entities_of_html_and_bare_ampersands_are_mended() -> None:
    feed = parsed("html-entities.xml")
    assert (feed.feed.title, feed.entries[0].title) == ("Café — news", "Entrée …")
    assert feed.entries[0].content == "5 € – <b>cheap</b> &amp;bogus; ©"
    assert feed.entries[1].content == "<p>&nbsp;kept &amp; shown</p>"
    assert feed.reader == "tree"
    assert feed.notes


def test_what_is_not_well_formed_is_read_as_far_as_can_be() -> None:
    assert [entry.title for entry in parsed("truncated.xml").entries] == ["Whole", "Second"]
    assert parsed("unclosed-tags.xml").entries[0].content == "<p>A paragraph<br>and another</p>"


def test_titles_are_text_whatever_was_escaped() -> None:
    titles = [entry.title for entry in parsed("titles.xml").entries]
    assert titles == ["Twice escaped & ’shown’", "An emphatic title", "CDATA & bold", "Lines and spaces"]
    assert parsed("commits-atom.xml").entries[0].title == "Fix the <select> element & its label"


def test_items_in_comments_and_texts_are_no_entries_and_entities_of_its_own_are_none() -> None:
    assert [entry.title for entry in parsed("comments-and-instructions.xml").entries] == ["One and only"]
    feed = parsed("own-entities.xml")
    assert (feed.entries[0].title, "Entity declarations are ignored" in feed.notes[0]) == ("One & only", True)


@pytest.mark.parametrize("name", ["atom-without-namespace.xml", "atom-wrong-namespace.xml", "atom-namespace-space.xml"])
def test_atom_is_known_by_its_elements_where_its_namespace_is_not(name: str) -> None:
    feed, (entry,) = parsed(name).feed, parsed(name).entries
    assert (feed.id, feed.subtitle) == ("urn:example:harbour", "Ships and tides")
    assert (feed.updated, feed.language) == (datetime(2021, 5, 2, 8, tzinfo=UTC), "en")
    assert feed.authors == (Author("Hal Harbour", "hal@harbour.example.org"),)
    assert (entry.id, entry.link) == ("urn:example:harbour:1", "https://harbour.example.org/1")
    assert entry.published == datetime(2021, 5, 1, 8, tzinfo=UTC)
    assert entry.updated == datetime(2021, 5, 2, 8, tzinfo=UTC)
    assert entry.authors == (Author("Tilda Tide", "", "https://harbour.example.org/tilda"),)
    assert (entry.summary, entry.content) == ("Up", "<p>Up by <b>two</b> metres.</p>")
    assert parsed(name).reader == "tree"


@pytest.mark.parametrize(
    "namespace", ["HTTPS://www.w3.org/2005/Atom/", "http://www.w3.org/2005/Atom#", "http://www.w3.org/1999/xhtml"]
)
def test_spellings_of_the_namespace_do_not_count(namespace: str) -> None:
    text = feed_corpus.data("atom-without-namespace.xml").decode().replace("<feed", f'<feed xmlns="{namespace}"')
    assert read(text) == parsed("atom-without-namespace.xml")


def test_a_prefix_with_a_misspelt_namespace_keeps_its_meaning() -> None:
    dc = "xmlns:dc=' http://purl.org/dc/elements/1.1 '"
    entry = read(f"<rss {dc}><channel><item><title>T</title><dc:creator>Ann</dc:creator></item></channel></rss>")
    assert (entry.entries[0].authors, entry.reader) == ((Author("Ann"),), "tree")


def test_a_document_type_in_a_comment_is_none() -> None:
    feed = parsed("doctype-in-comment.xml")
    assert (feed.feed.title, feed.entries[0].title) == ("Remarks", "A title > a comment")
    assert (feed.reader, feed.notes) == ("tree", ())


def test_a_document_type_after_a_comment_is_removed() -> None:
    before = '<!-- <rss> --><?x <!DOCTYPE?><!DOCTYPE rss [<!ENTITY a "b">]>'
    feed = read(f"{before}<rss><channel><item><title>T</title></item></channel></rss>")
    assert (feed.entries[0].title, feed.notes) == ("T", ("Entity declarations are ignored.",))


def test_dublin_cores_author_is_one_unless_there_is_a_creator() -> None:
    feed = parsed("dc-author.xml")
    assert feed.feed.authors == (Author("Penny Pen"),)
    assert [entry.authors for entry in feed.entries] == [(Author("Ingo Ink"),), (Author("Cora Creator"),)]


@pytest.mark.parametrize("name", ["http-id.xml", "http-id.json"])
def test_an_id_that_is_an_address_is_the_link_of_an_entry_without_one(name: str) -> None:
    links = [(entry.id, entry.link) for entry in parsed(name).entries]
    assert links == [("https://ids.example.org/1", "https://ids.example.org/1"), ("urn:example:2", "")]


def test_an_entry_alone_is_a_feed_named_by_its_source() -> None:
    feed, (entry,) = parsed("lone-entry.xml"), parsed("lone-entry.xml").entries
    assert (feed.format, feed.feed.id, feed.feed.title) == ("atom", "urn:example:alone", "The lonely feed")
    assert (entry.id, entry.title, entry.content) == ("urn:example:alone:1", "Alone", "<p>One.</p>")
    assert (entry.link, entry.authors) == ("https://alone.example.org/1", (Author("Sol Single"),))
    assert [each.title for each in read("<entry><title>Bare</title></entry>").entries] == ["Bare"]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        *(("", "empty"), ("  \n", "empty"), ("[1, 2]", "list of items"), ('{"items": 1}', "list of items")),
        ("<!DOCTYPE html><html><body>Not found</body></html>", "web page"),
        ("<html xmlns='http://www.w3.org/1999/xhtml'/>", "web page"),
        ('<opml version="2.0"><body/></opml>', "OPML"),
        ("<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'/>", "sitemap"),
        ("<note>hello</note>", "<note>"),
        ("Service unavailable", "not a feed"),
        ("<p>Gone<br>", "not a feed"),
        ('{"items": [', "not JSON"),
    ],
)
def test_what_is_no_feed_is_refused_in_a_sentence(document: str, sentence: str) -> None:
    with pytest.raises(ParseError, match=sentence) as refused:
        read(document)
    assert str(refused.value).endswith(".")


def test_an_enclosure_named_twice_is_one_with_all_that_is_known() -> None:
    entry = entry_of(
        '<enclosure url="https://a.example.org/1.mp3" type="audio/mpeg" length="0"/>'
        '<media:content url="https://a.example.org/1.mp3" fileSize="9" duration="65"><media:title>One</media:title>'
        "</media:content>"
    )
    assert entry.enclosures == (Enclosure("https://a.example.org/1.mp3", "audio/mpeg", 9, 65, "One"),)


@pytest.mark.parametrize(
    ("written", "author"),
    [
        ("a@b.example (Ann)", Author("Ann", "a@b.example")),
        ("Ann &lt;a@b.example&gt;", Author("Ann", "a@b.example")),
        ('"Ann B." &lt;mailto:a@b.example&gt;', Author("Ann B.", "a@b.example")),
        ("a@b.example", Author("", "a@b.example")),
        ("Ann", Author("Ann")),
        ("Ann (of Oslo)", Author("Ann (of Oslo)")),
    ],
)
def test_persons_are_told_from_their_addresses(written: str, author: Author) -> None:
    assert entry_of(f"<author>{written}</author>").authors == (author,)


@pytest.mark.parametrize(
    ("written", "seconds"), [("1:02:03", 3723), ("2:05", 125), ("90", 90), ("0", None), ("x", None)]
)
def test_durations_are_seconds(written: str, seconds: int | None) -> None:
    entry = entry_of(f'<media:content url="https://a.example.org/1.mp3" duration="{written}"/>')
    assert entry.enclosures[0].seconds == seconds


@pytest.mark.parametrize("host", ["ex ample.org", "ex<ample.org", "x:99999", "x:y", "[::1", "%41.org"])
def test_hosts_that_are_none_are_left_out(host: str) -> None:
    link = f"<link>https://{host.replace('<', '&lt;')}/</link>"
    entry = entry_of(link + "<description>&lt;a href='x'&gt;x&lt;/a&gt;</description>")
    assert entry.link == ""
    assert 'href="https://feeds.example.org/blog/x"' in entry.content


def test_a_base_that_no_browser_takes_leaves_relative_addresses_out() -> None:
    entry = entry_of("<link>https://xn--\N{SNOWMAN}/</link><description>&lt;a href='x'&gt;x&lt;/a&gt;</description>")
    assert "<a rel=" in entry.content


def test_bases_are_relative_to_the_document_also_where_it_is_not_well_formed() -> None:
    document = '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="inner/"><title>T</title><entry><title>x</title>'
    feed = read(document + '<content type="html">&lt;a href="y"&gt;x&lt;/a&gt;</content><br></entry></feed>')
    assert feed.reader == "feedparser"
    assert 'href="https://feeds.example.org/blog/inner/y"' in feed.entries[0].content
