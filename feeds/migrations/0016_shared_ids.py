from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('feeds', '0015_defaults_in_the_database'),
    ]

    operations = [
        migrations.AddField(
            model_name='entry',
            name='shared_id',
            field=models.PositiveSmallIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddIndex(
            model_name='entry',
            index=models.Index(fields=['identity'], name='entries_by_identity'),
        ),
    ]
