"""Takes apart pages and files of strangers beside the feeds, in a child process: articles, chapters, icons.

`python -m feeds.scan.page_process BYTES PARENT` starts it. The values of a request name its kind, and the content type
and the URL of its body; of an article also the data of its entry. An answer has `why` where there is no result.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from resources import sandbox
from resources.sandbox import ChildMessage

from .. import readings
from ..errors import ParseError
from ..parser import article, discovery, documents, markup, podcast
from ..parser.documents import DEFAULT_LIMITS
from ..parser.normalise import Normaliser
from .reader_process import READER_NICENESS

SAYS_NO_MORE = "The page has no more text than the feed."
LEAST_GAIN = 1.2
"""An article is of use if it has so many times the text of the feed."""


def _read_article(body: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    entry = documents.entry_from_json(given["entry"])
    extracted = article.extract_article(body, given["content_type"], given["url"])
    found = documents.strip_unstorable(article.drop_title(extracted, entry.title))
    own = max(len(markup.html_to_text(text)) for text in (entry.content, entry.summary))
    if len(markup.html_to_text(found)) < LEAST_GAIN * own:
        raise ParseError(SAYS_NO_MORE)
    return {"full": found, "text": readings.searchable_text(replace(entry, full=found))}


def _read_chapters(body: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    chapters = Normaliser(DEFAULT_LIMITS, datetime.now(UTC)).chapters(given["url"], podcast.read_chapter_file(body))
    return {"chapters": [documents.encode_fields(chapter) for chapter in chapters]}


def _read_icon(body: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    return {"icon": discovery.discover_icon(body, given["url"], given["content_type"])}


_READERS: Mapping[str, Callable[[bytes, Mapping[str, Any]], dict[str, Any]]] = {
    "article": _read_article,
    "chapters": _read_chapters,
    "icon": _read_icon,
}


def _answer_request(order: ChildMessage) -> ChildMessage:
    try:
        return ChildMessage(_READERS[order.values["kind"]](order.body, order.values))
    except ParseError as error:
        return ChildMessage({"why": str(error)})
    except MemoryError:
        return ChildMessage({"why": "It takes more memory to read than the limit for one page."})
    except Exception:  # noqa: BLE001 - the edge of a process: any error is about this page
        return ChildMessage({"why": "It cannot be read: the reader failed."})


if __name__ == "__main__":
    os.nice(READER_NICENESS)
    sandbox.serve_parent(int(sys.argv[1]), int(sys.argv[2]), _answer_request)
