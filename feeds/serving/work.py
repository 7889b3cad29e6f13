"""The work of rendering a page of feeds, as main hands it over. PURE."""

from feeds.composing.asking import Asked
from retry.work import Work

TASK = "feeds.render"


def render_work(asked: Asked, content_key: str, version: int) -> Work:
    """The work of rendering a page from what is kept at that version."""
    return Work(
        key=f"{content_key}:{version}",
        kind=f"{'feeds' if asked.is_combined else 'feed'}:{asked.format}",
        lane="paint.now",
        refresh_lane="paint.refresh",
        task=TASK,
        arguments=(asked.address,),
    )
