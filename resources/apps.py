from django.apps import AppConfig
from django.core.checks import register

from .fetching import checks as fetching_checks
from .mirroring import checks as mirroring_checks
from .mirroring.serving.checks import check_delivery, check_thumbnails
from .traffic import checks


class ResourcesConfig(AppConfig):
    name = "resources"

    def ready(self) -> None:
        register(checks.check_traffic)
        register(fetching_checks.check_fetching)
        register(mirroring_checks.check_rules)
        register(check_thumbnails)
        register(check_delivery)
