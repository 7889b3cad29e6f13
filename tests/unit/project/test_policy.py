"""Every page of HTML runs and shows only content of this site, with any data in the database."""

import json
from collections.abc import Iterator
from html import escape
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import models
from django.db.migrations import AddField, CreateModel
from django.db.migrations.loader import MigrationLoader
from django.http import HttpResponse
from django.test import Client
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from lxml import html

from feeds import tasks, views
from project.paths import BASE_DIR
from resources.mirror.public_files import delivery_headers
from retry import html_pages, line
from retry.tickets import Ticket
from tests.conftest import RedisServers
from tests.support import feed_rows
from tests.support.machines import note, process

BAD = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
NAVIGATION = {"Accept": "text/html,*/*", "Sec-Fetch-Mode": "navigate"}
NO_PAGES = {"jsi18n", "autocomplete", "view_on_site"}  # JavaScript, JSON, redirects
PAGES = [
    *("/", "/feeds/", "/feeds/sea/", "/feeds/category/nowhere/", "/layers/nowhere/", "/api/docs", "/admin/login/"),
    *(f"/{BAD}", f"/feeds/{BAD}/", f"/layers/{BAD}/", f"/tiles/{BAD}", f"/resources/{BAD}", f"/admin/{BAD}/"),
    *(f"/feeds/?q={BAD}", f"/feeds/all.atom?since={BAD}", f"/admin/login/?next={BAD}", f"/staticmap?layers={BAD}"),
]

SAYING = {".py", ".html", ".conf", ".js"}
"""Kinds of files that could say a policy."""
FIRST_UPGRADED = {"resources": "0013", "feeds": "0014"}
"""The first migrations that came with the steps of an upgrade in docs/operations.md."""
ADDRESSES = {"url", "site", "topic", "webhook", "referer", "moved_to", "upstream", "validated_url"}
OF_NO_MODEL = {"index", "login", "logout", "password_change", "password_change_done", "app_list"}

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


@pytest.fixture(autouse=True)
def _knows_nothing() -> None:
    views._known_subjects.clear()


def row(model: type[models.Model], **given: Any) -> models.Model:
    """One with hostile words wherever words may be, and rows of its kind for all it points to."""
    values = {field.attname: _value(field) for field in model._meta.concrete_fields if _is_needed(field)}
    made: models.Model = model._base_manager.create(**{**values, **given})
    return made


def _is_needed(field: Any) -> bool:
    return not isinstance(field, models.AutoField) and not (field.is_relation and field.null)


def _value(field: Any) -> Any:
    if field.is_relation:
        return (field.related_model._base_manager.first() or row(field.related_model)).pk
    if field.choices:
        return field.choices[0][0]
    if "sealed" in field.name or field.null:
        return field.get_default()
    match field:
        case models.CharField() | models.TextField():
            return _words(field.name)[: field.max_length]
        case models.DateTimeField():
            return timezone.now()
        case models.IntegerField() | models.FloatField() if not field.has_default():
            return 1
        case _:
            return field.get_default()


def _words(name: str) -> str:
    if name.endswith("digest") or name == "slug":  # which has no meaning for others
        return "ab" * 32 if name != "slug" else "sea"
    return f"https://sea.example.org/{BAD}" if name in ADDRESSES else BAD


def names_of_the_admin(resolver: Any = None, namespace: str = "") -> Iterator[str]:
    for each in (resolver or get_resolver()).url_patterns:
        if isinstance(each, URLResolver):
            yield from names_of_the_admin(each, each.namespace or namespace)
        elif isinstance(each, URLPattern) and namespace == "admin" and each.name and each.name not in NO_PAGES:
            yield each.name


def pages_of(model: type[models.Model]) -> list[str]:
    """The addresses of the admin's pages of a model that has one row."""
    key = model._base_manager.latest("pk").pk
    beginning = f"{model._meta.app_label}_{model._meta.model_name}_"
    names = sorted({name for name in NAMES if name.startswith(beginning)})
    return [_reversed(name, key) for name in names if not name.endswith(("_act", "_refetch"))]  # they change things


def _reversed(name: str, key: Any) -> str:
    try:
        return reverse(f"admin:{name}")
    except NoReverseMatch:
        return reverse(f"admin:{name}", args=[quote(key)])


NAMES = frozenset(names_of_the_admin())


def complaints(answer: Any) -> list[str]:
    """The parts of a page that are foreign, or would run or show foreign content."""
    policy = answer.get("Content-Security-Policy", "")
    page: Any = html.fromstring(answer.content)
    inline = page.xpath("//script[not(@src) and not(contains(@type, 'json'))] | //style | //@style | //iframe | //base")
    handlers = page.xpath("//@*[starts-with(name(), 'on')]")
    targets = [target for target in page.xpath("//@href | //@src | //@action | //@formaction") if _acts(target)]
    found = [str(each) for each in (*inline, *handlers, *targets)]
    found += [] if "default-src '" in policy and "unsafe" not in policy else [f"policy: {policy}"]
    return found + [f"lacks {part}" for part in ("base-uri 'none'", "frame-ancestors 'none'") if part not in policy]


def _acts(target: str) -> bool:
    return target.strip().lower().startswith(("javascript:", "data:", "vbscript:"))


@pytest.mark.parametrize("address", PAGES)
def test_a_page_for_everybody(client: Client, address: str) -> None:
    row(apps.get_model("feeds", "Feed"), slug="sea")
    answer = client.get(address, headers=NAVIGATION)
    match answer["Content-Type"].partition(";")[0]:
        case "text/html" if answer.content:
            assert complaints(answer) == []
        case "text/html":
            place = answer["Location"].partition("?")[0]
            assert (answer.status_code, place in {"/admin/login/", "/retry_after"}) == (302, True)
        case kind:
            assert kind == "application/problem+json"


def test_a_page_of_feeds(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishers' entries, as rendered by a worker."""
    handed_over: list[Any] = []
    monkeypatch.setattr("retry.lanes.publish_work", lambda *call: handed_over.append(call))
    feed_rows.feed(
        "sea", feed_rows.entry(1, title=BAD, content=f"<p style='x' onclick='x'>{BAD}</p>"), own_title=BAD, title=BAD
    )
    waiting = client.get("/feeds/sea/", headers=NAVIGATION)
    [(_, work_key, token, arguments, _)] = handed_over
    tasks.render_feed_page(work_key, token, *arguments)
    page = client.get("/feeds/sea/", headers=NAVIGATION)
    assert b"alert(1)" in page.content
    assert waiting.status_code == 302
    assert complaints(page) == []


def test_the_waiting_page() -> None:
    ticket = Ticket(f"/feeds/?q={BAD}", 0, BAD, BAD, 0, page=BAD)
    reply = html_pages.waiting_page_reply(ticket, line.describe_wait(BAD, 0), 1)
    assert complaints(HttpResponse(reply.body, headers=dict(reply.headers))) == []


def test_what_an_admin_uploads_is_told_of_as_text(admin_client: Client) -> None:
    """Files are refused with their contents, and named as they are named."""
    feature = {"type": "Feature", "id": BAD, "properties": {BAD: BAD}, "geometry": {"type": BAD, "coordinates": BAD}}
    collection = json.dumps({"type": "FeatureCollection", "features": [feature]}).encode()
    layer = {"slug": "bad", "title": BAD, "kind": "lines", "style": json.dumps({BAD: BAD}), "bounds": BAD}
    list_ = f'<opml><body><outline text="a" xmlUrl="gopher://{escape(BAD)}"/></body></opml>'.encode()
    forms: dict[str, dict[str, str | bytes]] = {
        "resources_layer_add": {**layer, "geometry_file": collection, "speeds_file": f"{BAD},{BAD}\n".encode()},
        "feeds_feed_import": {"file": list_, "dry_run": "on"},
        "feeds_feed_add": {"address": f"https://a.example/{BAD}", "url": BAD, "slug": BAD},
    }
    for name, fields in forms.items():
        sent = {key: SimpleUploadedFile(BAD, each) if isinstance(each, bytes) else each for key, each in fields.items()}
        answer = admin_client.post(reverse(f"admin:{name}"), sent)
        assert (answer.status_code, complaints(answer)) == (200, []), name
        assert b"&lt;script&gt;" in answer.content or name == "feeds_feed_import"


def test_a_page_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer has no detail of the failure."""
    monkeypatch.setattr("resources.tiles.pages.render", lambda *_, **__: 1 / 0)
    answer = Client(raise_request_exception=False).get(f"/?{BAD}", headers=NAVIGATION)
    assert (answer.status_code, b"ZeroDivision" in answer.content) == (500, False)
    assert complaints(answer) == []


def test_a_form_without_its_token() -> None:
    fields = {**NAVIGATION, "Referer": BAD}
    answer = Client(enforce_csrf_checks=True).post("/admin/login/", {"username": BAD}, headers=fields)
    assert (answer.status_code, answer["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert b"Reload the page" in answer.content
    assert complaints(answer) == []


@pytest.mark.parametrize(
    "model", [model for model in admin.site._registry if model._meta.managed], ids=lambda model: model._meta.label
)
def test_pages_of_the_admin_show_hostile_words_as_words(admin_client: Client, model: type[models.Model]) -> None:
    row(model)
    shown = {address: admin_client.get(address) for address in pages_of(model)}
    pages = {address: answer for address, answer in shown.items() if answer.status_code == 200}
    assert {answer.status_code for answer in shown.values()} <= {200, 403}
    assert len(pages) >= 2
    assert {address: found for address, answer in pages.items() if (found := complaints(answer))} == {}


def test_the_page_of_machines_shows_hostile_words_as_words(admin_client: Client, redis_servers: RedisServers) -> None:
    facts: dict[str, Any] = {"condition": BAD, "version": BAD, "roles": [BAD], "digests": {BAD: ["1"]}}
    note(redis_servers.state.client, BAD, process(BAD, BAD, BAD), **facts)
    note(redis_servers.state.client, "b", process(BAD, BAD, BAD, is_running=False), digests={BAD: ["2"]})
    answer = admin_client.get("/admin/resources/machine/")
    assert complaints(answer) == []
    assert answer.content.count(escape(BAD).encode()) > 5


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, ()) for name in sorted(OF_NO_MODEL - {"login", "logout", "app_list"})),
        *(("app_list", (app,)) for app in ("auth", "resources", "feeds")),
    ],
)
def test_the_other_pages_of_the_admin(admin_client: Client, name: str, given: tuple[str, ...]) -> None:
    assert complaints(admin_client.get(reverse(f"admin:{name}", args=given))) == []


def test_no_page_of_the_admin_is_left_out() -> None:
    beginnings = tuple(f"{model._meta.app_label}_{model._meta.model_name}_" for model in admin.site._registry)
    assert {name for name in NAMES if not name.startswith(beginnings)} == OF_NO_MODEL


def test_no_policy_anywhere_allows_what_is_unsafe() -> None:
    """Neither of pages nor of mirrored files."""
    folders = ("project", "retry", "resources", "feeds", "nginx")
    found = [path for folder in folders for path in (BASE_DIR / folder).rglob("*.*") if path.suffix in SAYING]
    assert len(found) > 100
    assert [path for path in found if "unsafe-" in path.read_text()] == []
    assert {"sandbox", "default-src 'none'"} < set(delivery_headers("image/png")["Content-Security-Policy"].split("; "))


def test_what_would_act_is_complained_of() -> None:
    body = "<base href='/'><script>x</script><p style='x' onclick='x'><a href=' JavaScript:x'>x</a></p>"
    answer = HttpResponse(body, headers={"Content-Security-Policy": "default-src 'self' 'unsafe-inline'"})
    assert len(complaints(answer)) == 8
    assert complaints(HttpResponse("<p>x</p>"))[0] == "policy: "


@pytest.mark.parametrize("app", FIRST_UPGRADED)
def test_processes_of_the_version_before_can_write_rows_without_the_new_columns(app: str) -> None:
    later = [
        migration
        for (label, name), migration in MigrationLoader(None).disk_migrations.items()
        if label == app and name >= FIRST_UPGRADED[app]
    ]
    added = [each for migration in later for each in migration.operations if isinstance(each, AddField)]
    assert added
    for each in added:
        field = apps.get_model(app, each.model_name)._meta.get_field(each.name)
        assert field.null or field.many_to_many or field.has_db_default(), f"{each.model_name}.{each.name}"


@pytest.mark.parametrize("app", FIRST_UPGRADED)
def test_processes_of_the_version_before_can_delete_rows_that_new_tables_name(app: str) -> None:
    made = {
        each.name.lower()
        for (label, name), migration in MigrationLoader(None).disk_migrations.items()
        if label == app and name >= FIRST_UPGRADED[app]
        for each in migration.operations
        if isinstance(each, CreateModel)
    }
    keys: list[Any] = [
        field
        for name in made
        for field in apps.get_model(app, name)._meta.get_fields()
        if isinstance(field, models.ForeignKey) and field.related_model._meta.model_name not in made
    ]
    assert [str(key) for key in keys if key.db_constraint] == []
