from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0015_own_servers'),
    ]

    operations = [
        migrations.AddField(
            model_name='resource',
            name='token',
            field=models.BigIntegerField(db_default=0, default=0, editable=False, verbose_name='fencing token of the claim that wrote its outcome'),
        ),
    ]
