from django.urls import path

from . import views

urlpatterns = [path("retry_after", views.retry_after, name="retry_after")]
