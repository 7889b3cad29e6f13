"""Character encodings of documents: declared, guessed and bounded in time."""

import pytest

from feeds.parser.charset import decode_document
from tests.support import feed_corpus
from tests.support.processor_time import within


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
