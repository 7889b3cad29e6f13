"""Reads the elements of episodes and videos: chapters, transcripts, numbers, YouTube's ids; and files of chapters.

Podcasting 2.0 (podcastindex.org/namespace/1.0), Podlove Simple Chapters, iTunes, YouTube's own feeds.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ParseError
from . import documents
from .xml import XmlNode, element_text

_MAX_SECONDS = 10_000_000
_NUMBER = re.compile(r"\d{1,7}(?:\.0{1,6})?", re.ASCII)
_TIME_PART = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_VIDEO_ID = re.compile(r"[A-Za-z0-9_-]{11}", re.ASCII)


def read_episode(node: XmlNode, draft: documents.EntryDraft) -> None:
    """Reads what an entry says of its episode or its video."""
    draft.season = _parse_number(node.text("podcast:season", "itunes:season"))
    draft.episode = _parse_number(node.text("podcast:episode", "itunes:episode"))
    given = [child for group in node.nodes("psc:chapters") for child in group.all("psc:chapter")]
    found = (
        _make_chapter(parse_start(child.get("start", "")), child.get("title"), child.get("href"), child.get("image"))
        for child in given
    )
    draft.chapters = [chapter for chapter in found if chapter is not None]
    draft.chapters_url = next((child.get("url", "").strip() for child in node.all("podcast:chapters")), "")
    draft.transcripts = [
        documents.Transcript(child.get("url", ""), child.get("type", ""), child.get("language", ""))
        for child in node.all("podcast:transcript")
    ]
    draft.youtube = next((checked_video_id(element_text(child)) for child in node.all("yt:videoid")), "")


def checked_video_id(text: str) -> str:
    """Returns the id of a video on YouTube; empty if it is none."""
    return text if _VIDEO_ID.fullmatch(text) else ""


def parse_start(text: str) -> float | None:
    """Returns the seconds of `754.5`, `12:34` or `00:12:34.500` (normal play time, RFC 2326); None for anything else.

    Zero is a beginning.
    """
    parts = text.strip().split(":")
    if len(parts) > 3 or not all(_TIME_PART.fullmatch(part) for part in parts):
        return None
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + float(part)
    return seconds


def read_chapter_file(body: bytes) -> list[documents.Chapter]:
    """Reads a file of chapters (JSON, Podcasting 2.0). Raises ParseError for anything else.

    Chapters that are not for tables of contents are left out.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ParseError("The file of chapters is not JSON.") from error
    chapters = document.get("chapters") if isinstance(document, dict) else None
    if not isinstance(chapters, list):
        raise ParseError("The file of chapters has no list of chapters.")
    return read_chapter_objects(each for each in chapters if isinstance(each, dict) and each.get("toc") is not False)


def read_chapter_objects(chapters: Iterable[Mapping[str, Any]]) -> list[documents.Chapter]:
    """Reads the objects of such a file, or of this site's own output. Those without a beginning are left out."""
    found = (
        _make_chapter(each.get("startTime"), each.get("title"), each.get("url"), each.get("img")) for each in chapters
    )
    return [chapter for chapter in found if chapter is not None]


def _make_chapter(start: object, *texts: object) -> documents.Chapter | None:
    if isinstance(start, bool) or not isinstance(start, int | float):
        return None
    if not 0 <= start < _MAX_SECONDS:
        return None
    title, url, image = (text.strip() if isinstance(text, str) else "" for text in texts)
    return documents.Chapter(round(float(start), 3), " ".join(title.split()), url, image)


def _parse_number(text: str) -> int | None:
    return int(float(text)) or None if _NUMBER.fullmatch(text.strip()) else None
