"""The Django app `resources`: registers its system checks."""

from django.apps import AppConfig

from retry.check_names import register_checks


class ResourcesConfig(AppConfig):
    name = "resources"

    def ready(self) -> None:
        register_checks("resources.traffic.counter", "check_traffic")
        register_checks("resources.mirror.checks", "check_rules", "check_thumbnails", "check_delivery")
        register_checks("resources.fetch.checks", "check_fetching")
