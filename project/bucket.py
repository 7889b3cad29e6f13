"""S3-compatible storage that gives up in time. Everything else is django-storages'."""

from typing import Any

from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError
from storages.backends.s3 import S3Storage

CONNECT_SECONDS = 3
ANSWER_SECONDS = 20
ATTEMPTS = 2


class Bucket(S3Storage):  # type: ignore[misc]  # it has no types
    """A bucket. Waits a few seconds where botocore by itself would wait for minutes.

    `errors` is what its libraries raise. They take 15 MB, in processes that have a bucket alone.
    """

    errors = (Boto3Error, BotoCoreError, ClientError, RetriesExceededError)

    def get_default_settings(self) -> dict[str, Any]:
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        )
        return {**super().get_default_settings(), "client_config": config}
