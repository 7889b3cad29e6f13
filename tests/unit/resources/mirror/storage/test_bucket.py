"""Places of the bytes with a bucket: here, there, on another machine, nowhere; and the way to get them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests
from django.core.files.storage import default_storage

from resources.mirror import delivery as mirror_delivery
from resources.mirror.models import Blob, UrlState
from resources.mirror.storage import blobs, sweeper
from resources.mirror.storage.takedown import take_down_blob
from resources.mirror.storage.uploads import (
    InStorage,
    MissingBytes,
    OnOtherMachine,
    OnThisMachine,
    Uploader,
    locate_blob,
)
from tests.support.moto_bucket import MotoBucket

from ..conftest import Give, Keep

BODY = b"some bytes"

pytestmark = pytest.mark.django_db(transaction=True)


def test_bytes_are_here_then_here_and_there_then_there(bucket: MotoBucket, keep: Keep, uploader: Uploader) -> None:
    blob = keep(BODY)
    uploader.run_once(0)
    blob.refresh_from_db()
    assert isinstance(locate_blob(blob), OnThisMachine)
    assert blob.uploaded_at is not None
    sweeper.sweep_held_blobs(blob.uploaded_at + timedelta(hours=2))
    assert locate_blob(blob) == InStorage(blob.name)
    with blobs.open_blob(blob) as file:
        assert file.read() == BODY


def test_another_machine_leaves_it_to_its_holder(bucket: MotoBucket, keep: Keep, settings: Any) -> None:
    blob = keep(BODY)
    settings.MACHINE, settings.MIRROR_HELD_DIRECTORY = "there", settings.MIRROR_HELD_DIRECTORY / "of another"
    other = Uploader()
    assert other.run_once(0) == 0
    other.close()
    assert locate_blob(blob) == OnOtherMachine("here")


def test_taken_down_it_is_gone_from_here_and_from_the_bucket(
    bucket: MotoBucket, keep: Keep, uploader: Uploader
) -> None:
    blob = keep(BODY)
    uploader.run_once(0)
    take_down_blob(blob.digest)
    assert bucket.names() == set()
    assert not blobs.local_path(blob.digest).exists()


def test_objects_without_a_row_are_removed_and_rows_without_an_object_are_fetched_again(
    bucket: MotoBucket, keep: Keep, give: Give, uploader: Uploader
) -> None:
    orphan, lost = keep(b"orphan"), keep(b"lost")
    row = give(lost)
    uploader.run_once(0)
    Blob.objects.filter(digest=orphan.digest).delete()
    default_storage.delete(lost.name)
    blobs.local_path(lost.digest).unlink()
    later = datetime.now(UTC) + timedelta(hours=2)
    for digest in (orphan.digest, lost.digest):
        sweeper.sweep_shelf(digest[:2], later)
    assert bucket.names() == set()
    row.refresh_from_db()
    assert row.state == UrlState.WANTED


def test_links_give_the_bytes_with_fields_of_ours(bucket: MotoBucket, keep: Keep, uploader: Uploader) -> None:
    blob = keep(BODY)
    uploader.run_once(0)
    link = blobs.bucket_link(blob.name, "text/plain", 'attachment; filename="a"')
    assert link is not None
    answer = requests.get(link, headers={"Range": "bytes=2-4"}, timeout=5)
    assert (answer.status_code, answer.content) == (206, BODY[2:5])
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a"'
    assert b"".join(blobs.stream_object(blob.name, 2, 5)) == BODY[2:5]


@pytest.mark.parametrize("delivery", ["proxy", "redirect"])
@pytest.mark.usefixtures("bucket")
def test_main_hands_what_is_in_the_bucket_over(
    keep: Keep, uploader: Uploader, settings: Any, client: Any, delivery: str
) -> None:
    settings.MIRROR_DELIVERY = delivery
    blob = keep(BODY)
    uploader.run_once(0)
    blobs.remove_local_blob(blob.digest)
    response = client.get(f"/resources/{blob.digest}", headers={"X-Front": "asked"})
    if delivery == "redirect":
        assert (response.status_code, response["Cache-Control"]) == (302, "no-store")
        assert requests.get(response["Location"], timeout=5).content == BODY
    else:
        assert response["X-Accel-Redirect"] == f"/delivered/bucket/{blob.digest}"
        assert requests.get(response[mirror_delivery.LINK_FIELD], timeout=5).content == BODY


def test_what_is_lost_is_told_apart(bucket: MotoBucket, keep: Keep) -> None:
    blob = keep(BODY)
    blobs.remove_local_blob(blob.digest)
    assert locate_blob(blob) == MissingBytes()
