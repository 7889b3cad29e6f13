"""The site's settings with an app of slow content, for tests of the whole stack."""

from project.settings import *  # noqa: F403
from project.settings import CONTENT_ADDRESSES, FETCH_TASKS, INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.flows.slow"]
ROOT_URLCONF = "tests.flows.urls"
CONTENT_ADDRESSES = (*CONTENT_ADDRESSES, "/slow/")
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
FETCH_TASKS = {**FETCH_TASKS, "slow.fetch": "tests.flows.slow.fetched.TASK"}
