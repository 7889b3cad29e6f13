"""Character encodings of documents: declared, guessed and bounded in time."""

import pytest

from feeds.parser.charset import decode_document
from tests.support import feed_corpus
from tests.support.processor_time import within


def test_bytes_of_another_encoding_between_utf_8_are_windows_characters() -> None:
    assert feed_corpus.parsed("mixed-encodings.xml").entries[0].content == "Größe and “pasted”"


@pytest.mark.parametrize("name", ["windows-1251-undeclared.xml", "koi8-r-as-utf-8.xml"])
def test_an_encoding_that_is_undeclared_or_wrongly_declared_is_guessed(name: str) -> None:
    feed = feed_corpus.parsed(name)
    assert (feed.feed.title, feed.entries[0].title) == ("Новости науки", "Учёные рассказали о новой планете")


def test_windows_characters_declared_for_a_script_without_latin_letters_are_no_declaration() -> None:
    assert feed_corpus.parsed("shift-jis-as-latin-1.xml").feed.title == "日本語のニュース"


def test_latin_letters_are_not_taken_for_another_encoding() -> None:
    feed = feed_corpus.parsed("latin-letters-undeclared.xml")
    assert (feed.feed.title, feed.entries[0].title) == ("Un élève « doué »", "« Très doué »")


@pytest.mark.parametrize("text", ["doué »", "“5 €” – ½ price", "naïve", "20 °C", "Það er þýðing", "ÉTÉ À LA FORÊT"])
@pytest.mark.parametrize("number", [1, 30])
def test_few_letters_of_windows_1252_are_enough(text: str, number: int) -> None:
    assert decode_document(f"<rss>{text * number}</rss>".encode("cp1252")) == f"<rss>{text * number}</rss>"


def test_one_byte_of_another_encoding_leaves_utf_8_as_it_is() -> None:
    assert decode_document("<a>doué</a>".encode() + b"\xa0" + "<b>»</b>".encode()) == "<a>doué</a>\xa0<b>»</b>"


def test_letters_of_central_europe_are_told_by_their_language() -> None:
    text = "Zażółć gęślą jaźń, wiadomości dzień dobry. Książka leży na półce, a świeca świeci jasno w łazience."
    assert decode_document(f"<rss>{text}</rss>".encode("cp1250")) == f"<rss>{text}</rss>"


def test_a_guess_takes_time_by_the_length() -> None:
    pages = ("Учёные <br>" * 1_000_000, "é" * 10_000_000, "<" * 1_000 + "é<" * 3_000_000, "x" * 3_000_000 + "<é")
    for document in pages:
        with within(4):
            decode_document(document.encode("koi8-r", "replace").replace(b"?", b"\xff"))


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
