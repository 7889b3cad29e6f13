"""Gives each token the layers that it was issued for; dates the evidence about hosts, and finds old failed URLs.

Before, a token without layers could change all of them. One that was issued for something else loses that right.
"""

import django.core.validators
import django.utils.timezone
from django.db import migrations, models


def name_all_layers(apps, schema_editor):
    tokens = apps.get_model("resources", "ApiToken").objects.filter(
        layers="", may_mirror=False, may_take_down=False, may_manage_feeds=False, user=None
    )
    tokens.update(layers="*")


def name_no_layers(apps, schema_editor):
    apps.get_model("resources", "ApiToken").objects.filter(layers="*").update(layers="")


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0012_marks'),
    ]

    operations = [
        migrations.AlterField(
            model_name='apitoken',
            name='layers',
            field=models.CharField(blank=True, help_text='Slugs of the layers that it may change, with spaces between them; * for all layers. Empty: none.', max_length=2000, validators=[django.core.validators.RegexValidator('\\A(?:\\*|[a-z0-9][a-z0-9_-]{0,49}(?: +[a-z0-9][a-z0-9_-]{0,49})*)\\Z', 'Slugs with spaces between them, or * for all layers.')]),
        ),
        migrations.RunPython(name_all_layers, name_no_layers),
        migrations.AddField(
            model_name='mirroredhost',
            name='learnt_at',
            field=models.DateTimeField(db_index=True, default=django.utils.timezone.now, verbose_name='last evidence'),
        ),
        migrations.AddIndex(
            model_name='resource',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['fetched_at'], name='failed_urls'),
        ),
    ]
