from django.db import migrations, models
from django.db.models.functions import Now

NEVER_BY_ITSELF = ("refused", "blocked", "taken down")


def let_failed_urls_be_tried(apps, schema_editor):
    """Lets URLs that failed before this be tried again by the next request, except those that no request helps."""
    failed = apps.get_model("resources", "Resource").objects.filter(state="failed", due_at=None)
    failed = failed.exclude(failure__in=NEVER_BY_ITSELF).exclude(status=410)
    failed.exclude(failure="expired", status=None).update(due_at=Now())


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0018_scans_of_timings'),
    ]

    operations = [
        migrations.AddField(
            model_name='resource',
            name='rounds',
            field=models.PositiveSmallIntegerField(default=0, verbose_name='failed rounds in a row'),
        ),
        migrations.AlterField(
            model_name='resource',
            name='due_at',
            field=models.DateTimeField(blank=True, help_text='When it is fetched. If it has failed or is stored: from when on a request has it fetched again.', null=True),
        ),
        migrations.AddField(
            model_name='mirroredhost',
            name='recheck',
            field=models.BooleanField(blank=True, choices=[(None, 'as MIRROR_RECHECK says'), (True, 'yes'), (False, 'no')], help_text='Whether its stored files are compared with their origin, as often as that says, when requested.', null=True, verbose_name='checks for new content'),
        ),
        migrations.RunPython(let_failed_urls_be_tried, migrations.RunPython.noop),
    ]
