"""The work of fetching one feed, whoever wants it. PURE."""

from retry.work import Work

TASK = "feeds.fetch"

INTERACTIVE = "fetch.fast"
REFRESH = "fetch.refresh"
SCANNED = "fetch.feeds"


def scan_work(feed_id: int, url: str, *, is_private: bool = False) -> Work:
    """Fetches a feed that is due. Its refresh lane is for scans; its result is in the database alone."""
    return Work(
        key=work_key(feed_id),
        kind="feed",
        lane=INTERACTIVE,
        refresh_lane=SCANNED,
        task=TASK,
        arguments=(asked_url(feed_id, url, is_private=is_private), feed_id, ""),
    )


def page_work(
    content_key: str, version: int, feed_id: int, url: str, page_argument: str, *, is_private: bool = False
) -> Work:
    """Fetches a feed because somebody wants a page of it, and renders that page."""
    return Work(
        key=f"{content_key}:fetch:{version}",
        kind="feed page",
        lane=INTERACTIVE,
        refresh_lane=REFRESH,
        task=TASK,
        arguments=(asked_url(feed_id, url, is_private=is_private), feed_id, page_argument),
    )


def work_key(feed_id: int) -> str:
    return f"feed:{feed_id}"


def asked_url(feed_id: int, url: str, *, is_private: bool) -> str:
    """The URL as its job is named by it: jobs of one URL are one request.

    A feed that is asked for with headers of its own (`is_private`) shares its answers with nobody. What follows `#`
    is not sent.
    """
    return f"{url.partition('#')[0]}#feed-{feed_id}" if is_private else url
