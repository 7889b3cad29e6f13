"""The URLs of the waiting instance, as a Django process serves them."""

from urllib.parse import urlsplit

from django.urls import path

from . import tickets, views
from .conf import conf

_path = urlsplit(conf().RETRY_AFTER_SERVER).path.lstrip("/")

urlpatterns = [
    path(_path, views.retry_after, name="retry_after"),
    path(f"{_path}{tickets.STATUS_PATH}", views.retry_status, name="retry_status"),
]
