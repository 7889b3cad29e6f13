"""The Django app of the deferral protocol: registers its system checks."""

from django.apps import AppConfig
from django.core.checks import register

from . import checks


class RetryConfig(AppConfig):
    name = "retry"

    def ready(self) -> None:
        for check in checks.ALL_CHECKS:
            register(check)
        for check in checks.DEPLOYMENT_CHECKS:
            register(check, deploy=True)
