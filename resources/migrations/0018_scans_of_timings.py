from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0017_runs_of_prewarming'),
    ]

    operations = [
        migrations.AddField(
            model_name='fetchtiming',
            name='scan',
            field=models.BigIntegerField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='fetchtiming',
            index=models.Index(
                condition=models.Q(('scan__isnull', False)), fields=['scan'], name='timings_of_a_scan'
            ),
        ),
    ]
