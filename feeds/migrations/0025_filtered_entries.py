"""The index of filtered entries."""

from django.db import migrations, models

from ._operations import AddIndexBesideWriters


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('feeds', '0024_filters'),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name='entry',
            index=models.Index(condition=models.Q(('filtered_at__isnull', False)), fields=['id'], name='filtered_entries'),
        ),
    ]
