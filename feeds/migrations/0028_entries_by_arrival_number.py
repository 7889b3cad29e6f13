"""The index of entries by their arrival in the change log."""

from django.db import migrations, models

from ._operations import AddIndexBesideWriters


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('feeds', '0027_story_index'),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name='entry',
            index=models.Index(fields=['arrival_number', 'id'], name='entries_by_arrival_number'),
        ),
    ]
