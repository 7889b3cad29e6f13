"""The index of filtered entries. PostgreSQL makes it while others write. Killed half-way, it begins anew."""

from django.db import migrations, models

DROP, CREATE = "DROP INDEX {} IF EXISTS filtered_entries", "CREATE INDEX {} filtered_entries ON feeds_entry (id)"


def make_index(apps, schema_editor):
    drop_index(apps, schema_editor)
    schema_editor.execute(f"{CREATE.format(_way(schema_editor))} WHERE filtered_at IS NOT NULL")


def drop_index(apps, schema_editor):
    schema_editor.execute(DROP.format(_way(schema_editor)))


def _way(schema_editor):
    return "CONCURRENTLY" if schema_editor.connection.vendor == "postgresql" else ""


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('feeds', '0024_filters'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make_index, drop_index)],
            state_operations=[
                migrations.AddIndex(
                    model_name='entry',
                    index=models.Index(condition=models.Q(('filtered_at__isnull', False)), fields=['id'], name='filtered_entries'),
                ),
            ],
        ),
    ]
