"""The admin's pages of mirrored files: their contents, their buttons, their refusals."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from resources import changelists
from resources.mirror import hosts, stats, url_rules
from resources.mirror.admin.hosts_rules import MAX_HOSTS_PER_ACTION
from resources.mirror.admin.resources import explain_url
from resources.mirror.errors import StorageError
from resources.mirror.models import Batch, Blob, MirroredHost, Resource, Rule, UrlState, Validator
from resources.mirror.reports import batches, report
from resources.mirror.reports.batches import SentList
from resources.mirror.storage import takedown
from resources.tokens import auth
from resources.tokens.models import ApiToken
from tests.support.admin_pages import said, text_of
from tests.support.mirror_rows import NOW, blob, content, digest_of, fail, resource, store, stored_resource, url

from ..conftest import raising

pytestmark = pytest.mark.django_db

URLS, FILES, HOSTS, LISTS, TALLIES, RULES = (
    f"/admin/resources/{name}/" for name in ("resource", "blob", "mirroredhost", "batch", "tally", "rule")
)


def choose(client: Client, page: str, action: str, *keys: object, **more: str) -> Any:
    return client.post(page, {"action": action, "_selected_action": list(keys), **more}, follow=True)


@pytest.fixture
def stored(admin_client: Client) -> str:
    """The page of a URL that is stored."""
    blob("a")
    stored_resource("a")
    return f"{URLS}{digest_of(url('a'))}/change/"


@pytest.mark.parametrize(
    "term", [url("a"), url("a").replace("https", "HTTP"), digest_of.__name__, "images.example.org", content("a")]
)
def test_urls_are_found_by_spelling_digest_and_host(admin_client: Client, stored: str, term: str) -> None:
    resource("z", url="https://other.example/z", host="other.example")
    wanted = digest_of(url("a")) if term == digest_of.__name__ else term
    page = text_of(admin_client.get(URLS, {"q": wanted}))
    assert url("a") in page
    assert "other.example" not in page


def test_a_search_for_what_is_no_url_says_so(admin_client: Client) -> None:
    assert "cannot be mirrored" in text_of(admin_client.get(URLS, {"q": "ftp://x.example/"}))


@pytest.mark.parametrize(
    ("page", "own"),
    [
        (URLS, "state=failed"),
        (FILES, "kind=image&place=down"),
        (HOSTS, ""),
        (LISTS, "finished=no"),
        (TALLIES, "days=x"),
    ],
)
def test_lists_answer_whatever_is_asked(admin_client: Client, stored: str, page: str, own: str) -> None:
    for query in (own, "p=2", "p=x", "q=x"):
        assert admin_client.get(f"{page}?{query}", follow=True).status_code == 200


def test_large_tables_are_not_counted(admin_client: Client, stored: str, django_assert_max_num_queries: Any) -> None:
    for name in range(60):
        resource(name)
    with django_assert_max_num_queries(10):
        page = text_of(admin_client.get(URLS))
    assert "p=2" in page


def test_the_page_of_a_url_says_how_it_stands(admin_client: Client, stored: str) -> None:
    page = text_of(admin_client.get(stored))
    assert "Downloaded and stored as a new file." in page
    assert f"/resources/{content('a')}/320x240.webp" in page
    resource("f")
    fail("f", "the server answered 404")
    page = text_of(admin_client.get(f"{URLS}{digest_of(url('f'))}/change/"))
    assert "The server answered 404." in page
    assert "320x240" not in page


def test_a_url_is_fetched_again_and_its_file_stays(admin_client: Client, stored: str) -> None:
    assert said(admin_client.post(stored.replace("change", "refetch"), follow=True)) == ["Queued for fetching: 1."]
    row = Resource.objects.get()
    assert (row.state, row.blob_digest, row.attempts) == (UrlState.WANTED, content("a"), 0)
    assert row.due_at is not None
    assert row.due_at <= datetime.now(UTC)


@pytest.mark.parametrize("action", ["refetch", "take_down"])
def test_what_is_chosen_for_too_many_is_refused_and_says_what_to_do(
    admin_client: Client, stored: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource("b", state=UrlState.FAILED)
    monkeypatch.setattr(changelists.MirroredAdmin, "most_chosen", 1)
    keys = list(Resource.objects.values_list("pk", flat=True))
    for chosen in ({"select_across": "1"}, {"select_across": "0"}):
        [told] = said(choose(admin_client, URLS, action, *keys, **chosen))
        assert "Nothing was changed" in told
        assert "a filter" in told
    assert not Resource.objects.filter(state=UrlState.WANTED).exists()
    narrowed = f"{URLS}?state__exact=failed"
    assert said(choose(admin_client, narrowed, "refetch", keys[0], select_across="1")) == ["Queued for fetching: 1."]


def test_what_is_blocked_or_taken_down_is_not_fetched_again(admin_client: Client, stored: str) -> None:
    MirroredHost.objects.create(host="example.org", blocked=True)
    resource("d", url="https://other.example/d", host="other.example", state=UrlState.FAILED, failure="taken down")
    [told] = said(choose(admin_client, URLS, "refetch", *Resource.objects.values_list("pk", flat=True)))
    assert told.startswith("Queued for fetching: 0. Not fetched, blocked or taken down: 2.")
    assert not Resource.objects.filter(state=UrlState.WANTED).exists()


def test_a_file_is_taken_down_when_that_is_meant(admin_client: Client, stored: str) -> None:
    for page, key in ((URLS, digest_of(url("a"))), (FILES, content("a"))):
        assert "cannot be undone" in text_of(choose(admin_client, page, "take_down", key))
        assert not Blob.objects.get().taken_down_at
    assert "Taken down: 1." in said(choose(admin_client, FILES, "take_down", content("a"), sure="yes"))[0]
    assert Blob.objects.get().taken_down_at
    assert Resource.objects.get().state == UrlState.FAILED


def test_admins_know_what_nginx_may_serve(admin_client: Client, stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takedown, "take_down_blob", raising(StorageError("away")))
    _, told = said(choose(admin_client, FILES, "take_down", content("a"), sure="yes"))
    assert told.endswith(f"{content('a')}. Take them down again.")


def test_what_has_no_file_cannot_be_taken_down(admin_client: Client) -> None:
    row = resource("a")
    assert said(choose(admin_client, URLS, "take_down", row.pk)) == ["None of the selected URLs has a file."]


def test_files_are_pinned(admin_client: Client, stored: str) -> None:
    choose(admin_client, FILES, "pin", content("a"))
    assert Blob.objects.get().pinned
    found = [
        content("a") in text_of(admin_client.get(FILES, {"place": place})) for place in ("machine", "storage", "down")
    ]
    assert found == [True, False, False]
    page = f"{FILES}{content('a')}/change/"
    assert url("a") in text_of(admin_client.get(page))
    Blob.objects.update(size=99)
    admin_client.post(page, {})
    assert not Blob.objects.get().pinned
    choose(admin_client, FILES, "pin", content("a"))
    choose(admin_client, FILES, "unpin", content("a"))
    assert not Blob.objects.get().pinned


def test_a_host_is_blocked_and_unblocked(admin_client: Client) -> None:
    resource("a")
    form = {"host": " IMAGES.example.org", "note": "spam", "blocked": "on"}
    assert "Waiting URLs that failed: 1." in said(admin_client.post(f"{HOSTS}add/", form, follow=True))[0]
    row = MirroredHost.objects.get()
    assert (row.host, row.note, row.blocked) == ("images.example.org", "spam", True)
    assert Resource.objects.get().failure == "blocked"
    [told, *_] = said(admin_client.post(f"{HOSTS}images.example.org/change/", {"note": "asked"}, follow=True))
    assert "unblocked" in told
    row.refresh_from_db()
    assert (row.note, row.blocked) == ("asked", False)
    choose(admin_client, HOSTS, "block", row.pk)
    choose(admin_client, HOSTS, "unblock", row.pk)
    row.refresh_from_db()
    assert not row.blocked


@pytest.mark.parametrize(("given", "chosen"), [("True", True), ("False", False), ("", None)])
def test_checks_for_new_content_are_chosen_by_host(admin_client: Client, given: str, *, chosen: bool | None) -> None:
    admin_client.post(f"{HOSTS}add/", {"host": "example.org", "recheck": given})
    assert MirroredHost.objects.get().recheck is chosen
    assert hosts.is_rechecked("images.example.org") is bool(chosen)


@pytest.mark.parametrize("action", ["block", "unblock", "reset_trust"])
def test_an_action_is_for_few_hosts_at_a_time(admin_client: Client, action: str) -> None:
    given = {"blocked": action == "unblock", "lies": 1}
    rows = [MirroredHost(host=f"{number}.example", **given) for number in range(MAX_HOSTS_PER_ACTION + 1)]
    keys = [row.pk for row in MirroredHost.objects.bulk_create(rows)]
    for chosen in ({"select_across": "1"}, {"select_across": "0"}):
        [told] = said(choose(admin_client, HOSTS, action, *keys, **chosen))
        assert f"More than {MAX_HOSTS_PER_ACTION} rows are selected. Nothing was changed." in told
    assert MirroredHost.objects.filter(**given).count() == MAX_HOSTS_PER_ACTION + 1
    choose(admin_client, HOSTS, action, *keys[1:])
    assert list(MirroredHost.objects.filter(**given)) == rows[:1]


@pytest.mark.parametrize("host", ["", "https://a.example/", "a.example/x", "a.example:8080", "a b", "127.1"])
def test_what_is_no_host_is_not_blocked(admin_client: Client, host: str) -> None:
    answer = admin_client.post(f"{HOSTS}add/", {"host": host, "blocked": "on"})
    assert answer.context["adminform"].form.errors["host"]
    assert not MirroredHost.objects.exists()


def test_a_host_that_lied_is_put_to_the_test_again(admin_client: Client) -> None:
    MirroredHost.objects.create(host="liar.example", lies=2, lied_at=NOW, confirmed=20, asked=9)
    assert "validators not trusted" in text_of(admin_client.get(HOSTS))
    Validator.objects.create(key="k", host="liar.example", blob_digest=content("a"), seen_at=NOW)
    assert "liar.example" in said(choose(admin_client, HOSTS, "reset_trust", "liar.example"))[0]
    row = MirroredHost.objects.get()
    assert (row.lies, row.lied_at, row.confirmed, row.asked) == (0, None, 0, 9)
    assert not Validator.objects.exists()


def test_a_list_shows_its_progress_and_its_items(admin_client: Client) -> None:
    batch = report.report_urls(SentList([url(name) for name in range(120)], "tests"), NOW).batch
    store(0)
    fail(1, "the server answered 404")
    batches.settle_batch(batch.pk, NOW)
    page = f"{LISTS}{batch.pk}/change/"
    shown = text_of(admin_client.get(page))
    assert url(0) in shown
    assert url(110) not in shown
    assert "?after=99" in shown
    assert url(110) in text_of(admin_client.get(f"{page}?after=99"))
    failed = text_of(admin_client.get(f"{page}?step=failed"))
    assert "the server answered 404" in failed
    assert url(0) not in failed.split("its-items")[1]
    for term in ("tests", str(batch.pk)):
        assert str(batch.pk)[:8] in text_of(admin_client.get(LISTS, {"q": term}))


def test_a_webhook_is_called_again(admin_client: Client) -> None:
    stored_resource("a")
    token = auth.issue_token(ApiToken(name="t", may_mirror=True)).row
    batch = report.report_urls(SentList([url("a")], "t", webhook="https://x.example/", token=token), NOW).batch
    Batch.objects.update(told_at=NOW, call_at=None, answer="given up: x", calls=9)
    assert said(choose(admin_client, LISTS, "call_again", batch.pk)) == ["Webhooks to be called now: 1."]
    batch.refresh_from_db()
    assert (batch.told_at, batch.calls) == (None, 0)
    assert batch.call_at


def test_efficiency_is_shown_over_time(admin_client: Client) -> None:
    now = datetime.now(UTC)
    for hours in (1, 30):
        stats.count_urls("new", 3, now - timedelta(hours=hours))
        stats.count_urls("body", 4, now - timedelta(hours=hours))
    page = text_of(admin_client.get(TALLIES, {"days": "1"}))
    assert "URLs settled in the last day: 3; 4 bodies downloaded, 75% new." in page
    assert "<svg" in page
    assert "URLs settled in the last 7 days: 6;" in text_of(admin_client.get(TALLIES))


@pytest.mark.parametrize("page", [URLS, FILES, HOSTS, LISTS, TALLIES, RULES])
def test_who_may_only_look_changes_nothing(client: Client, stored: str, rule: Rule, page: str) -> None:
    user = User.objects.create_user("looks", is_staff=True)
    client.force_login(user)
    assert client.get(page).status_code == 403
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    assert client.get(page).status_code == 200
    before = [model._default_manager.values().get() for model in (Resource, Blob, Rule)]
    for action in ("refetch", "take_down", "pin", "block", "approve"):
        choose(client, page, action, digest_of(url("a")), content("a"), rule.pk, sure="yes")
    assert client.post(stored.replace("change", "refetch")).status_code == 404
    assert [model._default_manager.values().get() for model in (Resource, Blob, Rule)] == before


PAIR = ["https://a.example.com/x?v=1", "https://a.example.com/x?v=<script>"]


@pytest.fixture
def rule() -> Rule:
    url_rules.forget_url_rules()
    evidence = {"contents": 7, "values": ["1", ""], "examples": [PAIR], "against": [], "seen_at": "2026-11-21T12:00:00"}
    now = datetime.now(UTC)
    return Rule.objects.create(kind="parameter", host="a.example.com", name="v", evidence=evidence, proposed_at=now)


def act(client: Client, action: str, rule: Rule) -> str:
    return " ".join(said(choose(client, RULES, action, rule.pk)))


def test_the_evidence_can_be_read(rule: Rule, admin_client: Client) -> None:
    text = admin_client.get(f"{RULES}{rule.pk}/change/").content.decode()
    assert "URLs that differ only in the value of v are the same" in text
    assert "Contents with several such URLs each: 7, as of 2026-11-21 12:00 UTC" in text
    assert "1, (empty)" in text
    assert "https://a.example.com/x?v=1<br>https://a.example.com/x?v=&lt;script&gt;" in text
    assert "v=<script>" not in text
    assert "a.example.com v" in admin_client.get(RULES).content.decode()


def test_an_approved_rule_is_in_force_and_a_rejected_one_is_not(rule: Rule, admin_client: Client) -> None:
    assert "Approved: a.example.com v." in act(admin_client, "approve", rule)
    assert url_rules.current_rules().learnt.parameters == {"a.example.com": {"v"}}
    assert "Rejected: a.example.com v." in act(admin_client, "reject", rule)
    assert not url_rules.current_rules().learnt
    rule.refresh_from_db()
    assert (rule.decision, rule.decided_at is not None) == ("rejected", True)
    history = admin_client.get(f"{RULES}{rule.pk}/history/").content.decode()
    assert "Approved." in history
    assert "Rejected." in history


def test_a_contradicted_rule_is_not_approved(rule: Rule, admin_client: Client) -> None:
    rule.evidence = {**rule.evidence, "against": [PAIR], "withdrawn_at": "2026-11-21T13:00:00"}
    rule.save()
    assert "Not changed, because contradicted: a.example.com v." in act(admin_client, "approve", rule)
    assert not url_rules.current_rules().learnt
    assert "In force until 2026-11-21 13:00 UTC" in admin_client.get(f"{RULES}{rule.pk}/change/").content.decode()


def test_a_rule_of_hosts_is_told_in_words(admin_client: Client) -> None:
    hosts = "{img1|img2}.example.com"
    rule = Rule.objects.create(kind="label", host=hosts, proposed_at=datetime.now(UTC))
    text = admin_client.get(f"{RULES}{rule.pk}/change/").content.decode()
    assert f"URLs that differ only in these hosts are the same: {hosts}" in text


def test_rules_are_proposed_and_not_typed(admin_client: Client) -> None:
    assert admin_client.get(f"{RULES}add/").status_code == 403


def why(**fields: Any) -> list[str]:
    given = {"state": "wanted", "step": "", "failure": "", "attempts": 0, "due_at": NOW, "detail": "", **fields}
    return explain_url(Resource(**given), NOW)


def test_it_is_said_why_there_is_nothing() -> None:
    assert why(state="failed", failure="permanent", detail="the server answered 404") == [
        "The server does not give it.",
        "The server answered 404.",
        "Tried again by the next request.",
    ]
    assert why(state="failed", failure="too big", due_at=NOW + timedelta(hours=6)) == [
        "Too large.",
        "Tried again by the first request in 6 h or later.",
    ]
    assert why(state="failed", failure="blocked", detail="The host is blocked by an admin.", due_at=None) == [
        "The host is blocked by an admin.",
        "No request has it tried again.",
    ]
    assert why(attempts=2, due_at=NOW + timedelta(minutes=5)) == ["Retried in 5 min.", "2 attempts so far."]
    assert why() == ["Queued or being fetched."]
    assert why(due_at=None) == ["Waiting, without a time."]


@pytest.mark.parametrize("step", ["known", "redirect", "validators", "unchanged", "content", "new", ""])
def test_it_is_said_what_settled_what_is_stored(step: str) -> None:
    [said] = why(state="stored", step=step, detail="an old one")
    assert said.endswith(".")
