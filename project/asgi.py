"""The main instance, for an ASGI server. The waiting instance is `retry.asgi`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = get_asgi_application()

from . import celery  # noqa: E402, F401
