"""The Django app of feeds: registers its system check."""

from django.apps import AppConfig
from django.core.checks import register

from . import checks


class FeedsConfig(AppConfig):
    name = "feeds"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(checks.check_hub)
