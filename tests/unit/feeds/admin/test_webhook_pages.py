"""The admin's pages of webhooks and their calls."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from feeds import change_calls, credentials
from feeds.change_rows import Webhook, WebhookCall
from tests.support import feed_rows
from tests.support.admin_pages import text_of

from .test_pages import missing

pytestmark = pytest.mark.django_db

WEBHOOKS, CALLS = "/admin/feeds/webhook/", "/admin/feeds/webhookcall/"
URL = f"https://hooks.example.org/{'long/' * 60}"


@pytest.fixture
def webhook() -> Webhook:
    """A webhook with two calls that wait, and one that was given up."""
    now, sealed = datetime.now(UTC), credentials.seal_password("whsec_secret")
    made = Webhook.objects.create(name="newsroom", url=URL, words="high tide", sealed_secret=sealed, delivered=1200)
    for _ in range(3):
        change_calls.write_call(made, "entries.new", [{"title": "Tide </pre><script>"}], now)
    last = WebhookCall.objects.latest("created_at")
    WebhookCall.objects.filter(pk=last.pk).update(due_at=None, answer="it answered 500")
    return made


def test_webhooks_are_listed_with_their_calls_and_the_last_answer(admin_client: Client, webhook: Webhook) -> None:
    page = text_of(admin_client.get(WEBHOOKS))
    assert not missing(page, "newsroom", "all feeds", "with “high tide”", "not called yet", "nothing delivered yet")
    there = f"{CALLS}?webhook__id__exact={webhook.pk}&state="
    assert not missing(page, f'{there}waiting">2 waiting', f'{there}given-up">1 given up')
    assert URL not in page, "an address of any length leaves room for the other columns"
    given_up = text_of(admin_client.get(f"{there}given-up"))
    assert not missing(given_up, "given up", "it answered 500")
    assert [str(call.pk) in given_up for call in WebhookCall.objects.order_by("due_at")].count(True) == 1
    Webhook.objects.update(delivered_at=datetime.now(UTC) - timedelta(hours=3), answer="delivered")
    WebhookCall.objects.all().delete()
    assert not missing(text_of(admin_client.get(WEBHOOKS)), "delivered", "last delivery 3 h ago", "none")


def test_the_page_of_a_webhook_tells_of_its_calls_and_a_new_one_has_none(
    admin_client: Client, webhook: Webhook
) -> None:
    page = text_of(admin_client.get(f"{WEBHOOKS}{webhook.pk}/change/"))
    assert not missing(page, URL, "2 waiting", "1 given up", "1,200", "Without a feed and a category")
    added = text_of(admin_client.get(f"{WEBHOOKS}add/"))
    assert "Calls delivered" not in added
    assert not missing(added, "by a signed POST")


def test_the_page_of_a_call_has_its_body_which_the_list_does_not_read(admin_client: Client, webhook: Webhook) -> None:
    call = WebhookCall.objects.filter(due_at__isnull=False)[0]
    there = f"{CALLS}{call.pk}/change/"
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert there in text_of(admin_client.get(CALLS))
    assert not any('"body"' in query["sql"] for query in queries)
    answer = admin_client.get(there)
    assert b"</pre><script>" not in answer.content
    assert not missing(text_of(answer), '"title": "Tide </pre><script>"', "newsroom", "Next attempt", "now")


def test_a_webhook_of_a_feed_or_a_category_names_it(admin_client: Client, webhook: Webhook) -> None:
    sea = feed_rows.feed("sea")
    Webhook.objects.update(feed=sea)
    assert "Sea" in text_of(admin_client.get(WEBHOOKS))
    Webhook.objects.update(feed=None, category=feed_rows.category("water", sea))
    assert "Water" in text_of(admin_client.get(WEBHOOKS))
