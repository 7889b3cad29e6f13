from urllib.parse import urlsplit

from django.urls import path

from . import views
from .conf import conf

urlpatterns = [path(urlsplit(conf().RETRY_AFTER_SERVER).path.lstrip("/"), views.retry_after, name="retry_after")]
