"""The index of the entries of stories."""

from django.db import migrations, models

from ._operations import AddIndexBesideWriters


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('feeds', '0026_stories'),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name='entry',
            index=models.Index(condition=models.Q(('story__isnull', False)), fields=['story', 'id'], name='entries_of_a_story'),
        ),
    ]
