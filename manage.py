#!/usr/bin/env python
"""Django's command line, with the settings of project/settings.py."""

import importlib
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    if os.environ.get("TARRY_INSTANCE") != "worker":  # those that run for long hand nothing to Celery: 20 MB less
        importlib.import_module("project.celery")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"A setting is wrong: {error}")
