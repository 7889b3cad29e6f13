"""The site's settings for unit tests: a runtime directory and two Redis sockets per process, no nginx."""

import atexit
import os
import shutil
import tempfile

# Short, since it holds unix sockets; one per process, so that parallel runs do not meet.
SCRATCH = tempfile.mkdtemp(prefix="tarry-test-", dir="/tmp")
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)

os.environ.update(
    DATA_DIR=f"{SCRATCH}/data",
    RUNTIME_DIR=SCRATCH,
    REDIS_URL=f"unix://{SCRATCH}/state.sock",
    CACHE_URL=f"unix://{SCRATCH}/cache.sock",
    SECRET_KEY="for-tests-only",
    PUBLIC_URL="http://testserver",
    DEBUG="0",
    RETRY_REDIS_TIMEOUT="1",  # the most that a site may have
    MIRROR_TALLY_SECONDS="0",  # no thread that writes while tests come and go
)
for name in ("RETRY_FRONT", "RETRY_INSTANCE", "STORAGE_URL", "PROMETHEUS_MULTIPROC_DIR", "ALLOWED_HOSTS"):
    os.environ.pop(name, None)

import project.celery  # noqa: E402, F401  as the web processes do
from project.settings import *  # noqa: E402, F403
from project.settings import DATABASES, SILENCED_SYSTEM_CHECKS, STORAGES  # noqa: E402

DATABASES["default"]["CONN_MAX_AGE"] = 0  # a test's threads leave no connection behind
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # As the site has it. In memory, threads that write at once would not wait for each other but fail.
    DATABASES["default"]["TEST"] = {"NAME": f"{SCRATCH}/test.sqlite3"}

RETRY_WORKER_NEEDS = ()  # workers run without a database
RETRY_REDIS_TIMEOUT = 5  # more than that: a busy machine is no outage
SILENCED_SYSTEM_CHECKS = [*SILENCED_SYSTEM_CHECKS, "retry.E015"]
STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
