"""The Django app of feeds: registers its system check, and has the index of searches mended after migrations."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from retry.check_names import register_checks

from . import search_index


class FeedsConfig(AppConfig):
    name = "feeds"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register_checks("feeds.checks", "check_hub")
        post_migrate.connect(search_index.mend_index, sender=self)  # after migrations of any version, and their order
