"""The Django app of the deferral protocol: registers its system checks."""

from django.apps import AppConfig

from . import checks  # noqa: F401


class RetryConfig(AppConfig):
    name = "retry"
