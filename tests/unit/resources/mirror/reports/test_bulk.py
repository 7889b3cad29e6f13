import io

from resources.mirror.reports import bulk


def read(data: bytes) -> list[str]:
    return list(bulk.read_urls(io.BytesIO(data)))


def test_blank_lines_and_comments_are_skipped() -> None:
    assert read(b"\n# a list\nhttps://a.example/1 \r\n\n  #x\nhttps://a.example/#y\n") == [
        "https://a.example/1",
        "https://a.example/#y",
    ]


def test_a_mark_of_the_encoding_belongs_to_no_url() -> None:
    assert read(b"\xef\xbb\xbfhttps://a.example/") == ["https://a.example/"]


def test_bytes_that_are_no_text_are_kept_to_be_refused() -> None:
    assert read(b"https://a.example/\xff\n") == ["https://a.example/\udcff"]


def test_a_line_of_any_length_is_one_line() -> None:
    found = read(b"https://a.example/" + b"x" * 100_000 + b"\nhttps://b.example/\n")
    assert [len(one) for one in found] == [bulk.MAX_LINE_BYTES, 18]


def test_the_same_lines_make_the_same_lists() -> None:
    data = b"".join(b"https://a.example/%d\n" % number for number in range(bulk.URLS_PER_LIST + 1))
    assert [len(chunk) for chunk in bulk.read_url_lists(io.BytesIO(data))] == [bulk.URLS_PER_LIST, 1]
