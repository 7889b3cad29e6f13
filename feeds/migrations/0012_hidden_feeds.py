"""Feeds that are kept out of what is public: from now on those whose servers are shown secrets."""

from django.db import migrations, models
from django.db.models import Q


def hide(apps, schema_editor):
    """Those that are there already."""
    feeds = apps.get_model("feeds", "Feed").objects.using(schema_editor.connection.alias)
    feeds.exclude(Q(user="") & Q(sealed_password="") & Q(sealed_headers="")).update(is_hidden=True)


class Migration(migrations.Migration):

    dependencies = [
        ('feeds', '0011_sizes_of_entries'),
    ]

    operations = [
        migrations.AddField(
            model_name='feed',
            name='is_hidden',
            field=models.BooleanField(default=False, help_text='In no combination, without pages of its own; in the API for tokens that may manage feeds alone.', verbose_name='kept out of what is public'),
        ),
        migrations.RunPython(hide, migrations.RunPython.noop),
    ]
