from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('feeds', '0013_deliveries_that_wait'),
    ]

    operations = [
        migrations.AddField(
            model_name='category',
            name='reader_count',
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
    ]
