"""The app of feeds, and what is checked of its settings."""

from django.apps import AppConfig
from django.core.checks import register

from .announcing import checks


class FeedsConfig(AppConfig):
    name = "feeds"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(checks.check_hub)
