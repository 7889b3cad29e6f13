"""Celery tasks of the resources."""

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from retry import preparing
from retry.errors import StoreUnavailable

from .demo import loading
from .fetching.keeping import hosts, limiting, timings
from .mirroring import conf
from .mirroring.contents.thumbnail import Fit, Thumbnail
from .mirroring.errors import StorageError
from .mirroring.gathering import feeding
from .mirroring.knowing import hosts as mirrored_hosts
from .mirroring.knowing.rules import current_rules
from .mirroring.reporting import batches, coalescing, webhooks
from .mirroring.ruling import proposing, rekeying
from .mirroring.serving.preparing import paint_thumbnail as paint_small
from .mirroring.storing import forgetting, pruning, sweeping, taking_down
from .static_map.picture import Picture
from .static_map.preparing import paint_picture
from .tiles import refreshing
from .tiles.blocks import Block
from .tiles.errors import LayerError
from .tiles.preparing import paint_block as paint
from .traffic import reading
from .warming import scheduled

LEARN_SECONDS = 2.0
PRUNE_SECONDS = 1.0
REKEY_SECONDS = 1.0
"""The queue has other work: what is left is done the next time."""

HEAL_SECONDS = 2.0
"""The same for lists of URLs that are looked after."""

PRUNE_BLOBS_SECONDS = 5.0
DISTRUST_SECONDS = 5.0
REFUSE_SECONDS = 5.0

_log = logging.getLogger("tarry.tasks")


@shared_task(name="resources.read_traffic", ignore_result=True)
def read_traffic() -> None:
    """Counts what the front has logged on this machine since the last time."""
    reading.read_traffic()


@shared_task(name="resources.apply_fetch_limits", ignore_result=True)
def apply_fetch_limits() -> None:
    """Sets limits of domains again where the frontier has lost them. The next pass does it when Redis is away."""
    try:
        changed = limiting.restore(datetime.now(UTC))
    except StoreUnavailable as error:
        _log.warning("limits of domains could not be compared", extra={"error": str(error)})
        return
    if changed:
        _log.warning("limits of domains were set again", extra={"domains": changed})


@shared_task(name="resources.prune_fetch_timings", ignore_result=True)
def prune_fetch_timings() -> None:
    """Removes timings older than FETCH_TIMINGS_DAYS, as many as can be removed in a second."""
    timings.prune(datetime.now(UTC) - timedelta(days=settings.FETCH_TIMINGS_DAYS), PRUNE_SECONDS)


@shared_task(name="resources.reseal_fetch_headers", ignore_result=True)
def reseal_fetch_headers() -> None:
    """Seals headers that an earlier SECRET_KEY has sealed with the one of today."""
    hosts.reseal()


@shared_task(name="resources.vary_demo", ignore_result=True)
def vary_demo() -> None:
    """Gives the demo's lines the speeds of this moment. Does nothing where an admin has deleted them."""
    try:
        loading.vary_speeds()
    except (DatabaseError, OSError, LayerError) as error:
        _log.warning("the demo waits", extra={"error": str(error)})


@shared_task(name=refreshing.TASK, ignore_result=True)
def refresh_popular(slug: str, version: int) -> None:
    """Has popular tiles painted anew that changes from a version on have touched; else whoever asks for them has."""
    try:
        refreshing.refresh_popular(slug, version)
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("popular tiles wait to be asked for", extra={"layer": slug, "error": str(error)})


@shared_task(name="resources.prewarm", ignore_result=True)
def prewarm() -> None:
    """Has the popular content prepared that is worth most, as much as can be painted until the next time."""
    try:
        scheduled.hand_over(settings.PREWARM_POPULAR, settings.PREWARM_SECONDS)
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("popular content is not prepared before it is asked for", extra={"error": str(error)})


@shared_task(name="resources.feed_mirror", ignore_result=True)
def feed_mirror() -> None:
    """Hands wanted URLs over to the fetchers. The next pass does it when Redis or the database is away."""
    try:
        feeding.feed(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("wanted URLs are not handed over", extra={"error": str(error)})


@shared_task(name="resources.look_after_batches", ignore_result=True)
def look_after_batches() -> None:
    """Settles the lists of which something has ended, and has webhooks called that are due."""
    now = datetime.now(UTC)
    batches.settle(coalescing.take(), now)
    webhooks.call_due(now)


@shared_task(name="resources.heal_batches", ignore_result=True)
def heal_batches() -> None:
    """Settles what nobody was told of, asks again for what was lost, and removes lists that are old."""
    now = datetime.now(UTC)
    batches.heal(now, HEAL_SECONDS)
    batches.prune(now - timedelta(days=settings.MIRROR_BATCH_DAYS), PRUNE_SECONDS)


@shared_task(name="resources.learn_url_rules", ignore_result=True)
def learn_url_rules() -> None:
    """Proposes rules for URLs to the admins, and takes those back that are contradicted."""
    proposing.learn(current_rules(), LEARN_SECONDS, datetime.now(UTC))


@shared_task(name="resources.rekey_urls", ignore_result=True)
def rekey_urls() -> None:
    """Brings stored URLs to the keys that they have under the rules of today. The next pass does it in an outage."""
    try:
        rekeying.rekey(current_rules(), conf.settle_seconds(), REKEY_SECONDS, datetime.now(UTC))
    except RedisError as error:
        _log.warning("URLs could not get their new keys", extra={"error": str(error)})


@shared_task(name="resources.sweep_blobs", ignore_result=True)
def sweep_blobs() -> None:
    """Compares a part of the storage with the rows of blobs. The next round does it when one of them is away.

    Distrusts hosts that were caught lying, where that was begun and not ended.
    """
    now = datetime.now(UTC)
    try:
        mirrored_hosts.finish_distrusting(now, DISTRUST_SECONDS)
        sweeping.sweep_shelf(sweeping.shelf_of(now), now)
    except (StorageError, DatabaseError) as error:
        _log.warning("blobs could not be swept", extra={"error": str(error)})


@shared_task(name=forgetting.TASK, ignore_result=True)
def forget_thumbnails(digest: str) -> None:
    """Removes the thumbnails of a file that was taken down from the cache."""
    try:
        forgetting.forget(digest)
    except RedisError as error:
        _log.warning("thumbnails stay in the cache", extra={"digest": digest, "error": str(error)})


@shared_task(name=taking_down.TASK, ignore_result=True)
def go_on_taking_down(digest: str) -> None:
    """Refuses more of the very many URLs of a file that was taken down. The sweeper does what an outage leaves."""
    try:
        taking_down.go_on(digest, REFUSE_SECONDS)
    except DatabaseError as error:
        _log.warning("URLs are refused later", extra={"digest": digest, "error": str(error)})


@shared_task(name="resources.prune_blobs", ignore_result=True)
def prune_blobs() -> None:
    """Removes blobs by MIRROR_MAX_BYTES and MIRROR_KEEP_DAYS, as many as can be removed in some seconds."""
    try:
        if retention := conf.retention():
            pruning.prune(retention, datetime.now(UTC), seconds=PRUNE_BLOBS_SECONDS)
    except DatabaseError as error:
        _log.warning("blobs could not be pruned", extra={"error": str(error)})


@shared_task(name="resources.paint_block", ignore_result=True)
def paint_block(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, layer: str, z: int, x: int, y: int, side: int, scale: int, image_format: str
) -> None:
    """Paints one block of tiles. Does not raise when that fails."""
    preparing.prepare(work_key, token, partial(paint, Block(layer, z, x, y, side, scale, image_format)))


@shared_task(name="resources.paint_static_map", ignore_result=True)
def paint_static_map(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, layers: str, zoom: int, x: int, y: int, width: int, height: int, image_format: str
) -> None:
    """Paints one static map. Does not raise when that fails."""
    picture = Picture(tuple(layers.split(",")), zoom, x, y, width, height, image_format)
    preparing.prepare(work_key, token, partial(paint_picture, picture))


@shared_task(name="resources.paint_thumbnail", ignore_result=True)
def paint_thumbnail(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, digest: str, width: int, height: int, image_format: str, fit: Fit
) -> None:
    """Paints one thumbnail. Does not raise when that fails."""
    preparing.prepare(work_key, token, partial(paint_small, Thumbnail(digest, width, height, image_format, fit)))
