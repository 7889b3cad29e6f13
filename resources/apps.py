"""The Django app `resources`: registers its system checks."""

from django.apps import AppConfig
from django.core.checks import register

from .fetch import checks
from .mirror import checks as mirror_checks
from .mirror.checks import check_delivery, check_thumbnails
from .traffic import checks as traffic_checks


class ResourcesConfig(AppConfig):
    name = "resources"

    def ready(self) -> None:
        register(traffic_checks.check_traffic)
        register(checks.check_fetching)
        register(mirror_checks.check_rules)
        register(check_thumbnails)
        register(check_delivery)
