"""S3-compatible storage that gives up in time, signs links, and reads parts. django-storages does the rest."""

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
MAX_ATTEMPTS = 2
CHUNK_BYTES = 65_536
MAX_CONNECTIONS = 20

_making_lock = Lock()


class Bucket(S3Storage):  # type: ignore[misc]  # it has no types
    """A bucket. Waits a few seconds where botocore by itself would wait for minutes.

    `errors` are those of its libraries. These take 15 MB, only in processes with a bucket.
    """

    errors = (Boto3Error, BotoCoreError, ClientError, RetriesExceededError)

    def get_default_settings(self) -> dict[str, Any]:
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
            retries={"total_max_attempts": MAX_ATTEMPTS, "mode": "standard"},
            max_pool_connections=MAX_CONNECTIONS,
            signature_version="s3v4",  # boto3's default for links is refused by newer servers
        )
        return {**super().get_default_settings(), "client_config": config}

    @property
    def bucket(self) -> Any:
        """The connection, one for all threads: each new thread would need a quarter of a second for its own."""
        with _making_lock:
            return super().bucket

    def signed_link(self, name: str, content_type: str, disposition: str, seconds: int) -> str:
        """A URL that gives any client the object for so many seconds, with these header fields. Makes no request."""
        fields = {"ResponseContentType": content_type, "ResponseContentDisposition": disposition}
        sign = self.bucket.meta.client.generate_presigned_url
        return str(sign("get_object", Params={**self._object(name), **fields}, ExpiresIn=seconds, HttpMethod="GET"))

    def stream(self, name: str, start: int, end: int) -> Iterator[bytes]:
        """Yields the bytes of the object from `start` to before `end`, as they come. Raises `errors`."""
        found = self.bucket.meta.client.get_object(**self._object(name), Range=f"bytes={start}-{end - 1}")
        with closing(found["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)

    def listed(self, beginning: str) -> Iterator[tuple[str, datetime]]:
        """Yields the names with that beginning, and the time when each was written."""
        prefix = f"{self.location.strip('/')}/".lstrip("/")
        for found in self.bucket.objects.filter(Prefix=prefix + beginning):
            yield found.key.removeprefix(prefix), found.last_modified

    def _object(self, name: str) -> dict[str, str]:
        return {"Bucket": self.bucket_name, "Key": self._normalize_name(clean_name(name))}
