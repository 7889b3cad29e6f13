from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0020_defaults_in_the_database'),
    ]

    operations = [
        migrations.AddField(
            model_name='resource',
            name='asked_by',
            field=models.BigIntegerField(db_default=0, default=0, editable=False, verbose_name='id of the token in whose turn it is fetched; 0: none'),
        ),
    ]
