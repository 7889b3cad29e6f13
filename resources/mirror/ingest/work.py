"""The work of fetching one URL, whoever wants it. PURE."""

from typing import Literal

from retry import work

TASK = "resources.mirror"

INTERACTIVE = "fetch.fast"
INGEST = "fetch.ingest"
LARGE = "fetch.large"

Lane = Literal["fast", "large"]


def work_key(url_digest: str) -> str:
    """One for all ways to write the URL, and for all who want it."""
    return f"mirror:{url_digest}"


def content_key(url_digest: str) -> str:
    """Of the small content that ends the work: the row says what became of the URL."""
    return f"resource:{url_digest}"


def mirror_work(url: str, url_digest: str, lane: Lane = "fast") -> work.Work:
    """Fetches `url`, as it was reported, and stores it under the digest of its canonical form.

    Its lane is for clients who wait, its refresh lane for what was reported.
    """
    return work.Work(
        key=work_key(url_digest),
        kind=f"mirror:{lane}",
        lane=INTERACTIVE,
        refresh_lane=LARGE if lane == "large" else INGEST,
        task=TASK,
        arguments=(url, url_digest),
    )
