from django.apps import AppConfig
from django.core.checks import register

from . import checks


class RetryConfig(AppConfig):
    name = "retry"

    def ready(self) -> None:
        for check in checks.ALL:
            register(check)
        for check in checks.DEPLOYMENT:
            register(check, deploy=True)
