"""Makes and fills the full-text index of entries, which triggers of the database keep true with every writer.

SQLite: the FTS5 table INDEX_TABLE, without the texts themselves, with the columns title, author, tag, text and `own`:
OWN_MARK, and OWN_MARK with the number of the feed. Its rowid is the entry's. Rebuilding the table of entries, as
migrations do, drops its triggers: `mend_index` makes them again.

PostgreSQL: the table INDEX_TABLE with the feed, the time and the words of each entry: by its narrow rows a search
orders all its matches without a look at the wide rows of entries. Words of titles, authors and tags have weights, and
marks before them (`pages.search_terms.LEXEME_MARKS`), by which the index tells fields apart.
"""
# ruff: noqa: S608  the SQL is put together from our own names

from collections.abc import Iterator
from typing import Any

from django.db import connection, transaction

from .words import MAX_WORD_CHARACTERS, PART_END, split_words

INDEX_TABLE = "feeds_entrywords"
ROWS_PER_BATCH = 2000
"""Entries indexed in one transaction: other writers have their turn after a second or two."""

OWN_MARK = "char(57344)"
"""PART_END: SQLite's index takes it for a letter, and no search has it in a word."""

_SQLITE_COLUMNS = f"""
    replace(replace({{row}}.title, 'ß', 'ss'), 'ẞ', 'ss'),
    (SELECT group_concat(replace(json_extract(value, '$.name'), 'ß', 'ss'), ' ' || {OWN_MARK} || ' ')
       FROM json_each({{row}}.data, '$.authors') WHERE type = 'object'),
    (SELECT group_concat(replace(coalesce(nullif(json_extract(value, '$.label'), ''), json_extract(value, '$.term')),
                                 'ß', 'ss'), ' ' || {OWN_MARK} || ' ')
       FROM json_each({{row}}.data, '$.categories') WHERE type = 'object'),
    {{row}}.text,
    {OWN_MARK} || ' ' || {OWN_MARK} || {{row}}.feed_id"""
_SQLITE_NAMES = "title, author, tag, text, own"
_IS_INDEXED = f"EXISTS (SELECT 1 FROM {INDEX_TABLE}_docsize WHERE id = {{row}}.id)"
_SQLITE_ADD = f"INSERT INTO {INDEX_TABLE} (rowid, {_SQLITE_NAMES}) SELECT {{row}}.id, {_SQLITE_COLUMNS}"
_SQLITE_REMOVE = (  # by the words that it was indexed with: the index has no other copy of them
    f"INSERT INTO {INDEX_TABLE} ({INDEX_TABLE}, rowid, {_SQLITE_NAMES}) "
    f"SELECT 'delete', {{row}}.id, {_SQLITE_COLUMNS} WHERE {_IS_INDEXED}"
)
_SQLITE_TRIGGERS = {
    "feeds_entry_words_insert": f"AFTER INSERT ON feeds_entry BEGIN {_SQLITE_ADD.format(row='new')}; END",
    "feeds_entry_words_update": (
        "AFTER UPDATE OF feed_id, title, text, data ON feeds_entry "
        f"WHEN ({_SQLITE_COLUMNS.format(row='old')}) IS NOT ({_SQLITE_COLUMNS.format(row='new')}) "
        f"BEGIN {_SQLITE_REMOVE.format(row='old')}; {_SQLITE_ADD.format(row='new')}; END"
    ),
    "feeds_entry_words_delete": f"AFTER DELETE ON feeds_entry BEGIN {_SQLITE_REMOVE.format(row='old')}; END",
}
PLACES_INDEX = "feeds_entry_places"
"""SQLite's index of times by entry: rows of entries have their texts before the time, on further pages."""

_SQLITE_TABLE = f"""
DROP TABLE IF EXISTS {INDEX_TABLE};
CREATE VIRTUAL TABLE {INDEX_TABLE}
 USING fts5({_SQLITE_NAMES}, content='', tokenize='unicode61 remove_diacritics 2');
"""
_SQLITE_PLACES = f"CREATE INDEX IF NOT EXISTS {PLACES_INDEX} ON feeds_entry (id, happened_at, feed_id)"

_LETTERS = [chr(code) for code in range(0x80, 0x590) if chr(code).casefold() != chr(code)]
_FOLDED = {letter: letter.casefold() for letter in _LETTERS if len(letter.casefold()) == 1}
"""Latin, Greek, Cyrillic and Armenian capitals: lower() depends on the database's locale."""
_SIGNS = (  # between words: classes of PostgreSQL depend on its locale too
    r"\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7"
    r"\u02c2-\u02c5\u02d2-\u02df\u0300-\u036f\u0483-\u0489\u0591-\u05cf\u05f3\u05f4\u0600-\u061f\u064b-\u065f"
    r"\u066a-\u066d\u06d4\u0964\u0965\u0e3f\u0e4f\u2000-\u206f\u20a0-\u20ff\u2190-\u245f\u2500-\u2bff\u2e00-\u2e7f"
    r"\u3000-\u3004\u3008-\u3020\u3030\u303d\u30fb\ufe00-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
    r"\U0001f000-\U0001faff\U000e0000-\U000e0fff"
)
_MAX_POSITION = 16_383

_POSTGRES_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION feeds_fold(given text) RETURNS text IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
SELECT CASE WHEN octet_length(given) = char_length(given) THEN lower(given COLLATE "C") ELSE
  lower(replace(replace(normalize(regexp_replace(normalize(given, NFD), '([A-Za-z])[\\u0300-\\u036f]+', '\\1', 'g'),
    NFC), 'ß', 'ss'), 'ẞ', 'ss') COLLATE "C") END $$;
CREATE OR REPLACE FUNCTION feeds_words(folded text, mark text) RETURNS tsvector
IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
SELECT coalesce(string_agg(
  '''' || mark || left(word, {MAX_WORD_CHARACTERS}) || ''':' || least(place, {_MAX_POSITION}), ' '), '')::tsvector
 FROM regexp_split_to_table(folded, '[{_SIGNS}]+') WITH ORDINALITY AS parts (word, place)
WHERE word <> '' $$;
CREATE OR REPLACE FUNCTION feeds_name_words(given text, mark text) RETURNS tsvector
IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
SELECT feeds_words(translate(feeds_fold(given), '{"".join(_FOLDED)}', '{"".join(_FOLDED.values())}'), mark) $$;
CREATE OR REPLACE FUNCTION feeds_entry_words(feed_id bigint, title text, data jsonb, body text) RETURNS tsvector
IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
SELECT setweight(feeds_name_words(title, 't:'), 'A')
  || setweight(feeds_name_words((SELECT string_agg(one->>'name', ' {PART_END} ')
       FROM jsonb_path_query(data, '$.authors[*]') AS one), 'a:'), 'B')
  || setweight(feeds_name_words((SELECT string_agg(coalesce(nullif(one->>'label', ''), one->>'term'), ' {PART_END} ')
       FROM jsonb_path_query(data, '$.categories[*]') AS one), 'g:'), 'B')
  || setweight(feeds_words(feeds_fold(body), ''), 'C')
  || ('''e:'' ''f:' || feed_id || '''')::tsvector $$;
"""
_POSTGRES_TABLE = f"""
DROP TABLE IF EXISTS {INDEX_TABLE};
CREATE TABLE {INDEX_TABLE}
 (entry_id bigint PRIMARY KEY, feed_id bigint NOT NULL, happened_at timestamptz NOT NULL, words tsvector NOT NULL)
 WITH (toast_tuple_target = 128);
"""
_POSTGRES_INDEX = f"""INSERT INTO {INDEX_TABLE} (entry_id, feed_id, happened_at, words)"""
_POSTGRES_READ = (
    "{row}.feed_id, {row}.happened_at, {row}.title, {row}.text, "
    "jsonb_path_query_array({row}.data, '$.authors[*]'), jsonb_path_query_array({row}.data, '$.categories[*]')"
)
_POSTGRES_TRIGGERS = f"""
CREATE OR REPLACE FUNCTION feeds_index_entry() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    TRUNCATE {INDEX_TABLE};
  ELSIF TG_OP = 'DELETE' THEN
    DELETE FROM {INDEX_TABLE} WHERE entry_id = OLD.id;
  ELSE
    {_POSTGRES_INDEX}
    VALUES (NEW.id, NEW.feed_id, NEW.happened_at, feeds_entry_words(NEW.feed_id, NEW.title, NEW.data, NEW.text))
    ON CONFLICT (entry_id) DO UPDATE
    SET feed_id = excluded.feed_id, happened_at = excluded.happened_at, words = excluded.words;
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS feeds_entry_words ON feeds_entry;
CREATE TRIGGER feeds_entry_words AFTER INSERT OR DELETE
 ON feeds_entry FOR EACH ROW EXECUTE FUNCTION feeds_index_entry();
DROP TRIGGER IF EXISTS feeds_entry_words_update ON feeds_entry;
CREATE TRIGGER feeds_entry_words_update AFTER UPDATE OF feed_id, title, text, data, happened_at
 ON feeds_entry FOR EACH ROW
 WHEN (({_POSTGRES_READ.format(row="OLD")}) IS DISTINCT FROM ({_POSTGRES_READ.format(row="NEW")}))
 EXECUTE FUNCTION feeds_index_entry();
DROP TRIGGER IF EXISTS feeds_entry_words_truncate ON feeds_entry;
CREATE TRIGGER feeds_entry_words_truncate AFTER TRUNCATE
 ON feeds_entry FOR EACH STATEMENT EXECUTE FUNCTION feeds_index_entry();
"""
_POSTGRES_GIN = (  # a short list of what is not yet in the tree: each search reads it whole
    f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {INDEX_TABLE}_words ON {INDEX_TABLE} USING gin (words) "
    "WITH (gin_pending_list_limit = 256)"
)
_POSTGRES_DROP = f"""
DROP TRIGGER IF EXISTS feeds_entry_words ON feeds_entry;
DROP TRIGGER IF EXISTS feeds_entry_words_update ON feeds_entry;
DROP TRIGGER IF EXISTS feeds_entry_words_truncate ON feeds_entry;
DROP FUNCTION IF EXISTS feeds_index_entry, feeds_entry_words, feeds_name_words, feeds_words, feeds_fold;
DROP TABLE IF EXISTS {INDEX_TABLE};
"""


def create_index() -> None:
    """Makes the index anew, empty, and the triggers: from now on writers keep it."""
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for statement in filter(str.strip, _SQLITE_TABLE.split(";")):
                cursor.execute(statement)
            _create_sqlite_triggers(cursor)
        else:
            cursor.execute(_POSTGRES_FUNCTIONS + _POSTGRES_TABLE + _POSTGRES_TRIGGERS)


def renew_triggers() -> None:
    """Replaces PostgreSQL's triggers of an earlier version; SQLite's have stayed the same."""
    if connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_POSTGRES_TRIGGERS)


def fill_index() -> None:
    """Indexes all entries; with a million of them it takes minutes. In no transaction."""
    fill_index_rows()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_POSTGRES_GIN)
            cursor.execute(f"ANALYZE {INDEX_TABLE}")


def fill_index_rows() -> None:
    """Indexes the entries that are not indexed yet, in batches."""
    for first, last in _batches():
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                added = _SQLITE_ADD.format(row="feeds_entry")
                where = f"id BETWEEN %s AND %s AND NOT {_IS_INDEXED.format(row='feeds_entry')}"
                cursor.execute(f"{added} FROM feeds_entry WHERE {where}", [first, last])
            else:  # locked against deletion: else a deleted entry could be indexed for good
                rows = "SELECT id, feed_id, happened_at, feeds_entry_words(feed_id, title, data, text) FROM feeds_entry"
                where = "WHERE id BETWEEN %s AND %s FOR KEY SHARE ON CONFLICT DO NOTHING"
                cursor.execute(f"{_POSTGRES_INDEX} {rows} {where}", [first, last])


def drop_index() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(_POSTGRES_DROP)
            return
        for name in _SQLITE_TRIGGERS:
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(f"DROP INDEX IF EXISTS {PLACES_INDEX}")
        cursor.execute(f"DROP TABLE IF EXISTS {INDEX_TABLE}")


def mend_index(**_: Any) -> None:
    """Makes SQLite's triggers again if a migration has rebuilt the table of entries. Indexes entries without words."""
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'trigger')")
        found = {row[0] for row in cursor.fetchall()}
        if INDEX_TABLE not in found or found >= _SQLITE_TRIGGERS.keys():
            return
        with transaction.atomic():
            _create_sqlite_triggers(cursor)
    fill_index_rows()


def _create_sqlite_triggers(cursor: Any) -> None:
    for name, trigger in _SQLITE_TRIGGERS.items():
        cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
        cursor.execute(f"CREATE TRIGGER {name} {trigger}")
    cursor.execute(_SQLITE_PLACES)


def _batches() -> Iterator[tuple[int, int]]:
    """Yields the first and the last id of each ROWS_PER_BATCH entries."""
    last = 0
    while True:
        with connection.cursor() as cursor:
            rows = "SELECT id FROM feeds_entry WHERE id > %s ORDER BY id LIMIT %s"
            cursor.execute(f"SELECT min(id), max(id) FROM ({rows}) AS batch", [last, ROWS_PER_BATCH])
            first, last = cursor.fetchone()
        if first is None:
            return
        yield first, last


_MIXED_PATTERN = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u20a0-\u2bff\u3005-\u3007\u3040-\u9fff\uf900-\uffef\U00010000-\U0003ffff]"
)
"""Signs that parted words only for readers, and letters of scripts without spaces."""


def split_stored_texts() -> None:
    """Splits the texts of entries that were stored before searches went by words, where the index could not.

    Only those with letters of scripts without spaces, or with signs that SQLite takes for letters.
    """
    test = "text GLOB %s" if connection.vendor == "sqlite" else "text ~ %s"
    size = "length(CAST(text AS BLOB))" if connection.vendor == "sqlite" else "octet_length(text)"
    pattern = f"*{_MIXED_PATTERN}*" if connection.vendor == "sqlite" else _MIXED_PATTERN
    for first, last in _batches():
        with transaction.atomic(), connection.cursor() as cursor:
            where = f"WHERE id BETWEEN %s AND %s AND {size} > length(text) AND {test}"
            cursor.execute(f"SELECT id, text FROM feeds_entry {where}", [first, last, pattern])
            rows = [(" ".join(split_words(text)), number) for number, text in cursor.fetchall()]
            cursor.executemany("UPDATE feeds_entry SET text = %s WHERE id = %s", rows)
