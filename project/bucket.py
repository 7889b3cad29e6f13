"""S3-compatible storage that gives up in time. Everything else is django-storages'."""

from typing import Any

from botocore.config import Config
from storages.backends.s3 import S3Storage

CONNECT_SECONDS = 3
ANSWER_SECONDS = 20
ATTEMPTS = 2


class Bucket(S3Storage):  # type: ignore[misc]  # it has no types
    """A bucket. Waits a few seconds where botocore by itself would wait for minutes."""

    def get_default_settings(self) -> dict[str, Any]:
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        )
        return {**super().get_default_settings(), "client_config": config}
