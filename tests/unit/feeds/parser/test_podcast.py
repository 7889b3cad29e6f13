"""Episodes and videos: chapters, transcripts, numbers, files of chapters."""

import json

import pytest

from feeds.errors import ParseError
from feeds.parser import podcast
from feeds.parser.documents import Chapter, Transcript
from tests.support import feed_corpus


def test_an_episode_has_its_numbers_chapters_and_transcripts() -> None:
    parsed = feed_corpus.parsed("podcast.xml")
    newest, older = parsed.entries
    assert (newest.season, newest.episode, older.season, older.episode) == (2, 12, 2, 11)
    moon = Chapter(1230.5, "The moon", "https://moon.example.org/", "https://radio.example.org/moon.png")
    assert newest.chapters == (Chapter(0.0, "Welcome"), moon)
    assert newest.chapters_url == "https://radio.example.org/12.json"
    assert newest.transcripts == (Transcript("https://radio.example.org/12.vtt", "text/vtt", "en"),)
    assert newest.enclosures[0].seconds == 34 * 60 + 56
    assert parsed.feed.icon == "https://radio.example.org/icon.svg"


def test_a_video_of_youtube_has_its_id_its_picture_and_the_lines_of_its_text() -> None:
    (video,) = feed_corpus.parsed("youtube.xml").entries
    assert video.youtube == "aB3_dE6-hI9"
    assert video.image == "https://i3.ytimg.com/vi/aB3_dE6-hI9/hqdefault.jpg"
    assert video.content == "In five minutes.<br>Knots: https://knots.example.org/ &amp; more"
    assert video.enclosures == (), "no browser plays Flash"


@pytest.mark.parametrize("text", ["", "short", "aB3_dE6-hI9x", 'aB3_dE6"hI9', "aB3_dE6-hI\n"])
def test_other_texts_are_no_ids_of_videos(text: str) -> None:
    assert podcast.checked_video_id(text) == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("754.5", 754.5),
        ("12:34", 754.0),
        ("00:12:34.500", 754.5),
        ("1:2:3:4", None),
        ("-1", None),
        ("", None),
        ("12:", None),
        ("1e3", None),
        ("٣", None),
    ],
)
def test_beginnings_are_normal_play_time(text: str, seconds: float | None) -> None:
    assert podcast.parse_start(text) == seconds


def test_a_file_of_chapters_leaves_out_those_that_are_in_no_table_of_contents() -> None:
    chapters = [
        {"startTime": 1.23456, "title": " A  chapter ", "url": "https://a.example/", "img": "/a.png", "endTime": 9},
        {"startTime": 5, "title": "A picture", "toc": False},
        *({"startTime": start} for start in ("10", None, True, -1, 1e12, 10**400)),
        "no chapter",
    ]
    body = json.dumps({"version": "1.2.0", "chapters": chapters}).encode()
    assert podcast.read_chapter_file(body) == [Chapter(1.235, "A chapter", "https://a.example/", "/a.png")]


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b"{}", b'{"chapters": {}}', b"[" * 200_000, b'{"chapters": [{"startTime": NaN}]'],
)
def test_other_files_are_refused(body: bytes) -> None:
    with pytest.raises(ParseError, match="The file of chapters"):
        podcast.read_chapter_file(body)


def test_numbers_that_are_no_numbers_count_as_none() -> None:
    assert podcast.read_chapter_file(b'{"chapters": [{"startTime": NaN}, {"startTime": Infinity}]}') == []
