"""The topics of this site's hub: their addresses, their subjects, and the letters that are delivered.

A page is rendered once for each change and format, as for clients, and is in `cache`. A topic whose whole page is too
large is delivered with fewer entries, the newest ones (WebSub, 7: a format of entries may be delivered in part).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock

from django.conf import settings
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from retry import deferral
from retry.contents import Content
from retry.decision import Serve
from retry.errors import PreparationError

from ..hub_models import HubTopic, Subscriber
from ..models import LONG_FIELDS, Category, Feed
from ..pages import page_entries
from ..pages.query import PageQuery
from ..pages.work import render_work
from ..push import websub
from ..push.leases import SubscriberStatus

ENTRY_CHOICES = (0, 10, 1)
"""The numbers of entries of a delivery, from the whole page on: the first that is small enough is taken."""


def topic_address(topic: HubTopic) -> str:
    """The URL of the topic, as its subscribers know it."""
    return f"{page_entries.site_url()}{topic.path}"


def topic_subject(topic: HubTopic) -> Feed | Category | None:
    """The feed or the category of the topic; None if it is gone, or hidden."""
    if topic.feed is not None:
        return None if topic.feed.is_hidden else topic.feed
    return topic.category


def changed_topics(now: datetime, most: int) -> QuerySet[HubTopic]:
    """The topics whose subscribers are not told of the last change, the longest waiting first.

    Those of which they were told within FEEDS_HUB_SECONDS wait for their turn.
    """
    rested = Q(announced_at=None) | Q(announced_at__lte=now - timedelta(seconds=settings.FEEDS_HUB_SECONDS))
    changed = Q(feed__version__gt=F("version"), feed__is_hidden=False) | Q(category__version__gt=F("version"))
    told = Subscriber.objects.filter(topic=OuterRef("pk"), state=SubscriberStatus.VERIFIED.value)
    found = HubTopic.objects.filter(rested, changed).filter(Exists(told)).select_related("feed", "category")
    return found.defer(*(f"feed__{name}" for name in LONG_FIELDS)).order_by("announced_at", "pk")[:most]


def subscribers_in_force(topic_id: int, least: int) -> QuerySet[Subscriber]:
    """The topic's subscribers in force from this id on, by their ids; none if the topic is gone, or hidden."""
    rows = Subscriber.objects.filter(topic=topic_id, pk__gte=least, state=SubscriberStatus.VERIFIED.value)
    is_there = Q(feed__is_hidden=False) | Q(category__slug__isnull=False)  # of rows: ids may outlive them
    there = HubTopic.objects.filter(is_there, pk=topic_id)
    return rows.filter(Exists(there)).order_by("pk")


def find_page(topic: HubTopic, entries: int, version: int) -> Content | None:
    """Returns the page with so many entries (0: the usual number), in this version or a newer one.

    None while it is not there: then it is being rendered.
    """
    subject = topic_subject(topic)
    if subject is None:
        return None
    asked = PageQuery.read_address(topic.path)
    asked = replace(asked, limit=entries) if entries else asked
    key = page_entries.page_content_key(asked, subject)
    answer = deferral.find_answer(key, render_work(asked, key, subject.version), version)
    return answer.content if isinstance(answer, Serve) and not answer.stale else None


def choose_page(topic: HubTopic) -> tuple[int, Content] | None:
    """Returns the page to deliver, with its number of entries; None while one is being rendered.

    One entry is delivered whatever its size: pages have bounds of their own.
    """
    for entries in ENTRY_CHOICES:
        page = find_page(topic, entries, topic.version + 1)
        if page is None:
            return None
        if len(page.body) <= settings.FEEDS_HUB_MAX_BYTES or entries == ENTRY_CHOICES[-1]:
            return entries, page
    return None


@dataclass(frozen=True, slots=True)
class Letter:
    """The delivery of a topic in one version, the same for all its subscribers but for its signature."""

    topic: str
    version: int
    body: bytes
    content_type: str
    links: str


SHELF_TOPICS, SHELF_BYTES = 200, 64_000_000
RENDER_SECONDS = 5.0
"""The time after which a page that was evicted is looked for again: it is being rendered."""


class LetterShelf:
    """The latest letters of a process, each read once for all subscribers."""

    def __init__(self) -> None:
        self._letters: dict[int, Letter] = {}
        self._lock = Lock()

    def take(self, topic_id: int, version: int) -> Letter | None:
        """Returns the letter in this version or a newer one; None if its subject is gone.

        Raises PreparationError while it is not rendered, and DatabaseError.
        """
        with self._lock:
            held = self._letters.get(topic_id)
            if held is None or held.version < version:
                self._letters.pop(topic_id, None)
                held = _write_letter(topic_id, version)
                if held is not None:
                    self._put(topic_id, held)
            return held

    def _put(self, topic_id: int, letter: Letter) -> None:
        self._letters[topic_id] = letter
        while len(self._letters) > SHELF_TOPICS or sum(len(each.body) for each in self._letters.values()) > SHELF_BYTES:
            del self._letters[next(iter(self._letters))]
            if len(self._letters) <= 1:
                break


SHELF = LetterShelf()


def _write_letter(topic_id: int, version: int) -> Letter | None:
    """Raises PreparationError while the page is not there, and DatabaseError."""
    topic = HubTopic.objects.select_related("feed", "category").filter(pk=topic_id).first()
    if topic is None or topic_subject(topic) is None:
        return None
    page = find_page(topic, topic.entries, version)
    if page is None:  # evicted: it is being rendered
        raise PreparationError("The page is being rendered.", status=503, retry_seconds=RENDER_SECONDS)
    address = topic_address(topic)
    links = websub.write_links((page_entries.hub_address(),), address)
    return Letter(address, page.version, page.body, page.content_type, links)
