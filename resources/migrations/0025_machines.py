from django.db import migrations, models


class Migration(migrations.Migration):
    """No table: the model is for the admin's page and its permission."""

    dependencies = [
        ('resources', '0024_refused_addresses_and_old_indexes'),
    ]

    operations = [
        migrations.CreateModel(
            name='Machine',
            fields=[
                ('name', models.CharField(max_length=253, primary_key=True, serialize=False)),
            ],
            options={
                'managed': False,
                'default_permissions': ('view', 'delete'),
            },
        ),
    ]
