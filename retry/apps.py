"""The Django app of the deferral protocol: registers its system checks."""

from django.apps import AppConfig

from .check_names import register_checks

CHECKS = (
    "check_waiting",
    "check_delivery",
    "check_waiting_address",
    "check_stores",
    "check_times",
    "check_lanes",
    "check_popularity",
)


class RetryConfig(AppConfig):
    name = "retry"

    def ready(self) -> None:
        register_checks("retry.checks", *CHECKS)
        register_checks("retry.checks", "check_public_url", deploy=True)
