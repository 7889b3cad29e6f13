"""The site as the last of its apps: while a process loads them, it collects no garbage, and starts sooner."""

import gc

from django.apps import AppConfig
from django.core.checks import register

from . import checks

gc.disable()


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self) -> None:
        register(checks.check_roles)
        gc.freeze()  # what is loaded stays
        gc.enable()
