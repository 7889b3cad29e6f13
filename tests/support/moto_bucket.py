"""A bucket that speaks S3, by moto's server, in a thread of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import boto3
from moto.server import ThreadedMotoServer


@dataclass(frozen=True, slots=True)
class MotoBucket:
    """A new bucket, and how a site is told of it."""

    name: str
    host: str
    client: Any

    @property
    def storage_url(self) -> str:
        return f"s3://key:secret@{self.host}/{self.name}/site?region=us-east-1&tls=0"

    def names(self) -> set[str]:
        """The names of its objects, below the site's prefix."""
        found = self.client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return {each["Key"].removeprefix("site/") for each in found}

    def body(self, name: str) -> bytes:
        read: bytes = self.client.get_object(Bucket=self.name, Key=f"site/{name}")["Body"].read()
        return read

    def type_of(self, name: str) -> str:
        return str(self.client.head_object(Bucket=self.name, Key=f"site/{name}")["ContentType"])

    def remove(self) -> None:
        """The bucket with its contents: every call of it fails, until it is made again."""
        for name in self.names():
            self.client.delete_object(Bucket=self.name, Key=f"site/{name}")
        self.client.delete_bucket(Bucket=self.name)

    def make(self) -> None:
        self.client.create_bucket(Bucket=self.name)


@contextmanager
def running() -> Iterator[MotoBucket]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )
    name = f"mirror-{uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    try:
        yield MotoBucket(name, f"{host}:{port}", client)
    finally:
        client.close()
        server.stop()
