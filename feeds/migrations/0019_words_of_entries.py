"""The full-text index of entries. Takes about 20 minutes for a million entries; writers go on meanwhile.

Killed half-way, it begins anew.
"""

from django.db import migrations

from feeds import search_index


def make_index(apps, schema_editor):
    search_index.split_stored_texts()
    search_index.create_index()
    search_index.fill_index()


def drop_index(apps, schema_editor):
    search_index.drop_index()


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('feeds', '0018_own_hub'),
    ]

    operations = [
        migrations.RunPython(make_index, drop_index),
    ]
