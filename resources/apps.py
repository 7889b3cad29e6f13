from django.apps import AppConfig
from django.core.checks import register

from .traffic import checks


class ResourcesConfig(AppConfig):
    name = "resources"

    def ready(self) -> None:
        register(checks.check_traffic)
