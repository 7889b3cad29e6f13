"""Addresses of the slow content that flows ask for."""

from django.urls import path

from . import views

urlpatterns = [path("<str:name>", views.slow)]
