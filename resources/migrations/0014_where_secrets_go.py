from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0013_rights_and_old_rows'),
    ]

    operations = [
        migrations.AddField(
            model_name='fetchheader',
            name='over_http',
            field=models.BooleanField(default=False, help_text='Without it, a field that may be a secret is sent over https alone. Over http, anybody on the way could read it.', verbose_name='also over http'),
        ),
        migrations.AddField(
            model_name='fetchheader',
            name='to_any_address',
            field=models.BooleanField(default=False, help_text='Without it, a field that may be a secret is sent for feeds and layers alone. With it also for mirrored files, webhooks, and hubs that feeds name: whoever may mirror could read all that it opens.', verbose_name='also to addresses that others choose'),
        ),
    ]
