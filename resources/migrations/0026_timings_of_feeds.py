from django.db import migrations, models

from ._operations import AddIndexBesideWriters


class Migration(migrations.Migration):
    """Not atomic: the index is made beside writers."""

    atomic = False

    dependencies = [
        ('resources', '0025_machines'),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name='fetchtiming',
            index=models.Index(condition=models.Q(('kind', 'feed')), fields=['url_digest', 'started_at'], name='timings_of_a_feed'),
        ),
        migrations.RemoveIndex(
            model_name='fetchtiming',
            name='timings_of_an_address',
        ),
    ]
