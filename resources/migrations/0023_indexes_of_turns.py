from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('resources', '0022_pieces_requested_too_rarely'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='resource',
            index=models.Index(condition=models.Q(('state', 'wanted')), fields=['lane', 'asked_by', 'due_at'], name='to_fetch_in_turn'),
        ),
        migrations.AddIndex(
            model_name='resource',
            index=models.Index(condition=models.Q(('expires_at__isnull', False), ('state', 'wanted')), fields=['lane', 'asked_by', 'expires_at'], name='to_fetch_before_expiry'),
        ),
    ]
