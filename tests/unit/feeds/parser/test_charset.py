import pytest

from feeds.parser.charset import decode_document
from tests.support import feed_corpus
from tests.support.processor_time import within

TITLES = {
    "latin-1.xml": "Größe und Café",
    "windows-1252-as-latin-1.xml": "“Quoted” – it’s 5 €",
    "windows-1252-undeclared.xml": "“Quoted” – Größe",
    "utf-8-as-latin-1.xml": "Größe – ‘quoted’",
    "utf-8-mark.xml": "Größe",
    "utf-16-mark.xml": "Größe 東京",
    "utf-16-big-endian.xml": "Größe 東京",
    "utf-8-as-utf-16.xml": "Größe",
    "shift-jis.xml": "東京の天気",
    "euc-jp.xml": "東京の天気",
    "iso-2022-jp.xml": "東京の天気",
    "gb2312.xml": "北京天气",
    "big5.xml": "臺北天氣",
    "koi8-r.xml": "Погода в Москве",
    "windows-1251.xml": "Погода в Москве",
    "euc-kr.xml": "서울 날씨",
    "charset-by-server.xml": "Погода",
    "unknown-encoding.xml": "Größe",
    "mixed-encodings.xml": "Größe",
}


@pytest.mark.parametrize("name", TITLES)
def test_the_encoding_of_a_feed_is_found(name: str) -> None:
    feed = feed_corpus.parsed(name)
    assert feed.feed.title == TITLES[name]
    assert feed.entries[0].title == TITLES[name]


def test_bytes_of_another_encoding_between_utf_8_are_windows_characters() -> None:
    assert feed_corpus.parsed("mixed-encodings.xml").entries[0].content == "Größe and “pasted”"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_characters_are_told_without_a_mark(codec: str) -> None:
    assert decode_document("<rss>ö</rss>".encode(codec)) == "<rss>ö</rss>"


@pytest.mark.parametrize("name", ["punycode", "idna", "utf-7", "unicode_escape", "zlib", "rot13", "no-such-thing"])
def test_encodings_that_no_server_sends_are_not_tried(name: str) -> None:
    assert decode_document("“5 €”".encode("cp1252"), f"text/xml; charset={name}") == "“5 €”"


def test_the_servers_word_goes_before_the_documents() -> None:
    data = '<?xml version="1.0" encoding="koi8-r"?><a>Привет</a>'.encode("cp1251")
    assert "Привет" in decode_document(data, 'text/xml; charset="Windows-1251"')


@pytest.mark.parametrize("part", [" ", "charset=", "charset = ", '"'])
def test_the_servers_word_takes_time_by_its_length(part: str) -> None:
    for beginning in ("charset", "charset=", 'charset="'):
        with within(1):
            decode_document(b"<rss>\xff</rss>", f"text/xml; {beginning}{part * (16_000 // len(part))};")


def test_every_byte_means_something() -> None:
    assert decode_document(bytes(range(128, 256)))
