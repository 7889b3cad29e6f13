"""S3-compatible storage that gives up in time, signs links, and reads parts. Everything else is django-storages'."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from threading import Lock
from typing import Any

from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from s3transfer.exceptions import RetriesExceededError
from storages.backends.s3 import S3Storage
from storages.utils import clean_name

CONNECT_SECONDS = 3
ANSWER_SECONDS = 20
ATTEMPTS = 2
CHUNK_BYTES = 65_536
CONNECTIONS = 20

_making = Lock()


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
            max_pool_connections=CONNECTIONS,
            signature_version="s3v4",  # for links, boto3 would still take one that newer servers refuse
        )
        return {**super().get_default_settings(), "client_config": config}

    @property
    def bucket(self) -> Any:
        """One for all threads: each that begins would spend a quarter of a second on one of its own."""
        with _making:
            return super().bucket

    def signed_link(self, name: str, content_type: str, disposition: str, seconds: int) -> str:
        """A URL under which anybody may get the object for so long, with these header fields. Asks nobody."""
        parameters = {
            **self._object(name),
            "ResponseContentType": content_type,
            "ResponseContentDisposition": disposition,
        }
        link: str = self.bucket.meta.client.generate_presigned_url(
            "get_object", Params=parameters, ExpiresIn=seconds, HttpMethod="GET"
        )
        return link

    def stream(self, name: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes of the object from `start` to before `end`, as they come. Raises what is in `errors`."""
        found = self.bucket.meta.client.get_object(**self._object(name), Range=f"bytes={start}-{end - 1}")
        with closing(found["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)

    def listed(self, beginning: str) -> Iterator[tuple[str, datetime]]:
        """Names that begin so, and when each was written."""
        prefix = f"{self.location.strip('/')}/".lstrip("/")
        for found in self.bucket.objects.filter(Prefix=prefix + beginning):
            yield found.key.removeprefix(prefix), found.last_modified

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self.bucket_name, "Key": self._normalize_name(clean_name(name))}
