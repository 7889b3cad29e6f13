"""The work of fetching one URL, shared by all requests for it. PURE."""

from typing import Literal

from retry import work

TASK_NAME = "resources.mirror"

INTERACTIVE_LANE = "fetch.fast"
INGEST_LANE = "fetch.ingest"
LARGE_LANE = "fetch.large"

LaneName = Literal["fast", "large"]


def url_work_key(url_digest: str) -> str:
    """Returns one key for all spellings of the URL, and for all requests for it."""
    return f"mirror:{url_digest}"


def url_content_key(url_digest: str) -> str:
    """Returns the key of the small content that ends the work. The row has the settlement of the URL."""
    return f"resource:{url_digest}"


def mirror_work(url: str, url_digest: str, lane: LaneName = "fast") -> work.Work:
    """Fetches `url`, as it was reported, and stores it under the digest of its canonical form.

    Its lane is for waiting clients, its refresh lane for reported URLs.
    """
    return work.Work(
        key=url_work_key(url_digest),
        kind=f"mirror:{lane}",
        lane=INTERACTIVE_LANE,
        refresh_lane=LARGE_LANE if lane == "large" else INGEST_LANE,
        task=TASK_NAME,
        arguments=(url, url_digest),
    )
