from django.db import migrations
from django.db.models import F


def keep_versions(apps, schema_editor):
    """Tiles that were stale before there were parts that expire stay stale."""
    layers = apps.get_model('resources', 'Layer').objects
    layers.filter(data_version=0).update(data_version=F('version'))


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0002_parts_and_points'),
    ]

    operations = [
        migrations.RunPython(keep_versions, migrations.RunPython.noop),
    ]
