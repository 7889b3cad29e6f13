"""How many deliveries of a feed's hub have not been read yet."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('feeds', '0012_hidden_feeds'),
    ]

    operations = [
        migrations.AddField(
            model_name='feed',
            name='delivered',
            field=models.IntegerField(default=0, editable=False),
        ),
    ]
