"""How much an entry says, for pages that are to end in time."""

from django.db import migrations, models
from django.db.models.functions import Cast, Length


def measure(apps, schema_editor):
    """Those that are there already."""
    entries = apps.get_model("feeds", "Entry").objects.using(schema_editor.connection.alias)
    entries.filter(size=0).update(size=Length(Cast("data", models.TextField())))


class Migration(migrations.Migration):

    dependencies = [
        ('feeds', '0010_told_in_vain'),
    ]

    operations = [
        migrations.AddField(
            model_name='entry',
            name='size',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.RunPython(measure, migrations.RunPython.noop),
    ]
