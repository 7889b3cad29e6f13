"""The index of words follows the table of entries, whoever writes there."""

import importlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from feeds import search_index
from feeds.models import Entry
from feeds.pages import page_entries
from feeds.pages.query import PageQuery
from tests.support import feed_rows
from tests.support.feed_rows import entry

pytestmark = pytest.mark.django_db

only_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL keeps triggers")


def find(words: str) -> list[str]:
    asked = PageQuery.read_address(f"/feeds/all.atom?q={words}")
    return [each.title for each in page_entries.select_entries(asked, page_entries.find_subject(asked)).entries]


def check_index() -> None:
    """Fails if the index contradicts itself, or has other entries than the table."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                f"INSERT INTO {search_index.INDEX_TABLE} ({search_index.INDEX_TABLE}) VALUES ('integrity-check')"
            )
            cursor.execute(f"SELECT id FROM {search_index.INDEX_TABLE}_docsize")
        else:
            cursor.execute(f"SELECT entry_id FROM {search_index.INDEX_TABLE}")
        assert {row[0] for row in cursor.fetchall()} == set(Entry.objects.values_list("pk", flat=True))


def test_what_is_stored_edited_moved_and_deleted_is_indexed_so() -> None:
    sea = feed_rows.feed("sea", entry(1, title="Deep"), entry(2, title="Blue"))
    land = feed_rows.feed("land")
    rows = list(Entry.objects.order_by("pk"))
    rows[0].title, rows[0].text = "Green", "green text"
    Entry.objects.bulk_create(rows[:1], update_conflicts=True, unique_fields=["id"], update_fields=["title", "text"])
    assert (find("deep"), find("title:deep"), find("title:green")) == ([], [], ["Green"])
    Entry.objects.filter(pk=rows[1].pk).update(feed=land)
    assert (find("feed:land"), find("feed:sea")) == (["Blue"], ["Green"])
    Entry.objects.bulk_create(rows, ignore_conflicts=True)
    Entry.objects.update(left_at=feed_rows.NOW)
    check_index()
    sea.delete()
    check_index()
    assert (find("green"), find("blue")) == ([], ["Blue"])


def index_rows() -> list[tuple[Any, ...]]:
    """The index as it is stored: another write of the same words gives other rows."""
    of_sqlite = f"SELECT id, block FROM {search_index.INDEX_TABLE}_data ORDER BY id"
    of_postgres = f"SELECT entry_id, ctid, xmin FROM {search_index.INDEX_TABLE} ORDER BY entry_id"
    with connection.cursor() as cursor:
        cursor.execute(of_sqlite if connection.vendor == "sqlite" else of_postgres)
        return list(map(tuple, cursor.fetchall()))


@pytest.mark.parametrize(
    ("name", "value", "is_indexed"),
    [
        ("left_at", feed_rows.NOW, False),
        ("change_number", 12_345, False),
        ("title", "Deep", False),
        ("title", "Deeper", True),
        ("text", "other words", True),
        ("data", {"title": "Deep", "authors": [{"name": "Ann"}], "chapters": [{"start": 1}]}, False),
        ("data", {"title": "Deep", "authors": [{"name": "Bob"}]}, True),
        ("data", {"title": "Deep", "authors": [{"name": "Ann"}], "categories": [{"term": "x"}]}, True),
    ],
)
def test_only_a_change_of_what_is_indexed_is_written_into_the_index(name: str, value: Any, is_indexed: bool) -> None:
    row = feed_rows.add(feed_rows.feed("sea"), entry(1, title="Deep"))
    Entry.objects.filter(pk=row.pk).update(data={"title": "Deep", "authors": [{"name": "Ann"}]})
    before = index_rows()
    row.refresh_from_db()
    setattr(row, name, value)
    row.save()  # all columns
    assert (index_rows() != before) is is_indexed
    check_index()


def test_a_change_of_the_time_alone_is_written_where_searches_read_it() -> None:
    row = feed_rows.add(feed_rows.feed("sea"), entry(1, title="Deep"))
    before = index_rows()
    row.happened_at += timedelta(days=1)
    row.save()
    assert (index_rows() != before) is (connection.vendor == "postgresql")


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's triggers have stayed the same")
def test_triggers_of_an_earlier_version_are_replaced() -> None:
    earlier = """
    DROP TRIGGER feeds_entry_words_update ON feeds_entry;
    CREATE OR REPLACE TRIGGER feeds_entry_words AFTER INSERT OR DELETE OR UPDATE OF title, text, data
     ON feeds_entry FOR EACH ROW EXECUTE FUNCTION feeds_index_entry()"""
    with connection.cursor() as cursor:
        cursor.execute(earlier)
    row = feed_rows.add(feed_rows.feed("sea"), entry(1, title="Deep"))
    before = index_rows()
    row.save()
    assert (rewritten := index_rows()) != before
    importlib.import_module("feeds.migrations.0022_words_that_change").renew_triggers(None, None)
    row.save()
    assert index_rows() == rewritten
    Entry.objects.update(title="Blue")
    assert find("title:blue") == ["Blue"]


def test_names_of_any_form_do_not_keep_an_entry_from_being_stored() -> None:
    sea = feed_rows.feed("sea", entry(1))
    forms: list[Any] = [
        {"authors": "x"},
        {"authors": ["x", None, 1]},
        {"categories": {"a": 1}},
        {"authors": [{}]},
        {},
        [],
    ]
    for data in forms:
        Entry.objects.filter(feed=sea).update(data=data, title="'\\\"; \ud7ff\U0001f600 x:1A & !")
        check_index()
    Entry.objects.update(text="w" * 20_000)
    Entry.objects.update(text=" ".join(f"w{number}" for number in range(19_000)))
    check_index()


def test_the_index_is_filled_from_entries_that_are_there() -> None:
    search_index.drop_index()
    feed_rows.feed("sea", entry(1, title="Deep"), entry(2, title="Große See"))
    search_index.create_index()
    Entry.objects.filter(title="Deep").update(title="Deeper")  # not indexed yet: a writer during the filling
    search_index.fill_index_rows()
    search_index.fill_index_rows()
    check_index()
    assert (find("title:deeper"), find("title:deep"), find("title:grosse")) == (["Deeper"], [], ["Große See"])


def test_batches_have_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_index, "ROWS_PER_BATCH", 2)
    feed_rows.feed("sea", *(entry(number) for number in range(5)))
    spans = list(search_index._batches())
    assert sum(Entry.objects.filter(pk__range=span).count() for span in spans) == 5
    assert len(spans) == 3


def test_texts_without_spaces_between_words_are_split() -> None:
    feed_rows.feed("sea", entry(1, title="Weather"), entry(2, title="Other"))
    Entry.objects.filter(title="Weather").update(text="今日は晴れ😀deep")
    search_index.split_stored_texts()
    assert (find("晴れ"), find("deep")) == (["Weather"], ["Weather"])
    assert Entry.objects.get(title="Other").text == "other \ue000 text 2"


@only_sqlite
def test_a_migration_that_rebuilds_the_table_leaves_the_index_true() -> None:
    feed_rows.feed("sea", entry(1, title="Deep"))
    with connection.cursor() as cursor:
        for name in search_index._SQLITE_TRIGGERS:
            cursor.execute(f"DROP TRIGGER {name}")
        cursor.execute(f"DROP INDEX {search_index.PLACES_INDEX}")
    feed_rows.feed("land", entry(2, title="Blue"))
    search_index.mend_index()
    check_index()
    assert (find("blue"), find("deep")) == (["Blue"], ["Deep"])


def test_a_sound_index_is_left_alone(django_assert_max_num_queries: Callable[..., object]) -> None:
    with django_assert_max_num_queries(1):  # type: ignore[attr-defined]
        search_index.mend_index()


def test_the_migration_can_be_undone() -> None:
    migration = importlib.import_module("feeds.migrations.0019_words_of_entries")
    migration.drop_index(None, None)
    feed_rows.feed("sea", entry(1))
    assert Entry.objects.count() == 1
    search_index.create_index()
