"""The site as the last of its apps: while a process loads them, it collects no garbage, and starts sooner."""

import gc

from django.apps import AppConfig

from retry.check_names import register_checks

gc.disable()


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self) -> None:
        register_checks("project.checks", "check_roles")
        gc.freeze()  # what is loaded stays
        gc.enable()
