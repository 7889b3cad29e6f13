"""The full-text index of entries follows an update only where it changes something that is indexed."""

from django.db import migrations

from feeds import search_index


def renew_triggers(apps, schema_editor):
    search_index.renew_triggers()


class Migration(migrations.Migration):

    dependencies = [
        ('feeds', '0021_hub_topics_without_keys'),
    ]

    operations = [
        migrations.RunPython(renew_triggers, migrations.RunPython.noop),
    ]
