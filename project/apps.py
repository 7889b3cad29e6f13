"""The site as the last of its apps: while a process loads them, it collects no garbage, and starts sooner."""

import gc

from django.apps import AppConfig

gc.disable()


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self) -> None:
        gc.freeze()  # what is loaded stays
        gc.enable()
