import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0014_where_secrets_go'),
    ]

    operations = [
        migrations.AddField(
            model_name='fetchdomain',
            name='own_in_flight',
            field=models.PositiveSmallIntegerField(editable=False, help_text='What layers say of their own server: so many, without a gap.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)], verbose_name='requests in flight at an own server'),
        ),
        migrations.AddField(
            model_name='layer',
            name='upstream_in_flight',
            field=models.PositiveSmallIntegerField(blank=True, help_text='Says that the server of these tiles is yours: it gets so many requests at a time, without a gap.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)], verbose_name='requests in flight at an own server'),
        ),
    ]
