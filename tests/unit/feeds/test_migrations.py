"""Migrations that begin anew: each step of theirs may be done already when they were killed."""

import importlib

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

INDEXES = {
    "0025_filtered_entries": "filtered_entries",
    "0027_story_index": "entries_of_a_story",
    "0028_entries_by_arrival_number": "entries_by_arrival_number",
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", INDEXES)
def test_an_index_that_was_made_and_not_recorded_is_made_anew(name: str) -> None:
    """The index is there: the database of the tests is migrated."""
    migration = importlib.import_module(f"feeds.migrations.{name}").Migration
    state: ProjectState = MigrationLoader(connection).project_state([("feeds", name)])
    assert migration.atomic is False
    with connection.schema_editor(atomic=False) as editor:
        for operation in migration.operations:
            operation.database_forwards("feeds", editor, state, state)
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "feeds_entry")
    assert INDEXES[name] in found
