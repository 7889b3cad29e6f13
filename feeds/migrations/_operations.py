"""Operations of migrations. Django takes no module for a migration whose name begins like this one's."""

from django.db.migrations import AddIndex


class AddIndexBesideWriters(AddIndex):
    """Makes an index while others write, where the database can: PostgreSQL. Killed half-way, it begins anew.

    Its migration must not be atomic. Django's AddIndexConcurrently is for PostgreSQL alone.
    """

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        model = to_state.apps.get_model(app_label, self.model_name)
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(self.index.remove_sql(model, schema_editor, concurrently=True))
            schema_editor.execute(self.index.create_sql(model, schema_editor, concurrently=True))
        else:
            schema_editor.execute(f"DROP INDEX IF EXISTS {self.index.name}")
            schema_editor.add_index(model, self.index)
