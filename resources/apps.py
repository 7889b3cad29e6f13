"""The Django app `resources`: registers its system checks."""

from django.apps import AppConfig
from django.core.checks import register

from .fetch import checks as fetching
from .mirror import checks as mirror
from .traffic import counter


class ResourcesConfig(AppConfig):
    name = "resources"

    def ready(self) -> None:
        checks = (counter.check_traffic, mirror.check_rules, mirror.check_thumbnails, mirror.check_delivery)
        for check in (*checks, fetching.check_fetching):
            register(check)
