"""The index of the entries of stories. On PostgreSQL writers go on while it is made. Killed half-way, it begins anew."""

from django.db import migrations, models

INDEX = models.Index(
    condition=models.Q(('story__isnull', False)), fields=['story', 'id'], name='entries_of_a_story'
)


def make_index(apps, schema_editor):
    entry = apps.get_model('feeds', 'Entry')
    if schema_editor.connection.vendor == 'postgresql':
        schema_editor.execute(INDEX.remove_sql(entry, schema_editor, concurrently=True))
        schema_editor.execute(INDEX.create_sql(entry, schema_editor, concurrently=True))
    else:
        schema_editor.execute(f'DROP INDEX IF EXISTS {INDEX.name}')
        schema_editor.add_index(entry, INDEX)


def drop_index(apps, schema_editor):
    schema_editor.remove_index(apps.get_model('feeds', 'Entry'), INDEX)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('feeds', '0026_stories'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make_index, drop_index)],
            state_operations=[migrations.AddIndex(model_name='entry', index=INDEX)],
        ),
    ]
