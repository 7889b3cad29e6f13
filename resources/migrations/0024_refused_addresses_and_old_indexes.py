from django.db import migrations
from django.db.models.functions import Now


def let_refused_addresses_be_tried(apps, schema_editor):
    """Lets addresses that were not fetched be tried again by the next request."""
    refused = apps.get_model("resources", "Resource").objects.filter(state="failed", failure="refused", due_at=None)
    refused.exclude(status=410).update(due_at=Now())


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0023_indexes_of_turns'),
    ]

    operations = [
        migrations.RunPython(let_refused_addresses_be_tried, migrations.RunPython.noop),
        migrations.RemoveIndex(
            model_name='resource',
            name='to_fetch',
        ),
        migrations.RemoveIndex(
            model_name='resource',
            name='to_fetch_in_time',
        ),
    ]
