"""Celery tasks of the app: each loads, calls and logs, and leaves the work to other modules."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseError
from redis.exceptions import RedisError

from retry import worker
from retry.errors import StoreUnavailable

from . import old_rows
from .demo import load
from .disk import room
from .fetch import host_settings, timings
from .mirror import conf, hosts, rekey, url_rules
from .mirror.errors import StorageError
from .mirror.ingest import feeder
from .mirror.media.thumbnails import Thumbnail, ThumbnailFit
from .mirror.reports import batches, webhooks
from .mirror.storage import retention as storage_retention
from .mirror.storage import sweeper, takedown
from .mirror.thumbnail_painter import paint_thumbnail as paint_small
from .mirror.url_rules import current_rules
from .prewarm import automatic_run, run_records
from .prewarm.automatic_run import RunLimits
from .staticmap import StaticMap, render_static_map
from .tiles import publication, work
from .tiles.errors import LayerError
from .tiles.tile_address import Metatile
from .tiles.work import paint_metatile as paint
from .traffic import counter

LEARN_RULES_SECONDS = 2.0
PRUNE_SECONDS = 1.0
REKEY_SECONDS = 1.0
"""Time limits: the queue has other work, and the next run does the rest."""

HEAL_BATCHES_SECONDS = 2.0
"""The same for repairing batches."""

PRUNE_BLOBS_SECONDS = 5.0
MAKE_ROOM_SECONDS = 4.0
PRUNE_ROWS_SECONDS = 2.0
DISTRUST_SECONDS = 5.0
REFUSE_SECONDS = 5.0

_log = logging.getLogger("tarry.tasks")


@contextmanager
def _log_outage(message: str, *errors: type[Exception], **extra: str) -> Iterator[None]:
    """Logs these errors: the next run makes up for it."""
    try:
        yield
    except errors as error:
        _log.warning(message, extra={**extra, "error": str(error)})


@shared_task(name="resources.read_traffic", ignore_result=True)
def read_traffic() -> None:
    """Counts the requests that the front has logged on this machine since the last time."""
    counter.read_traffic()


@shared_task(name="resources.apply_fetch_limits", ignore_result=True)
def apply_fetch_limits() -> None:
    """Restores limits of domains that the frontier has lost, and those of own servers.

    Waits for the next pass while Redis is away.
    """
    with _log_outage("limits of domains could not be compared", StoreUnavailable):
        publication.apply_own_servers()
        if changed := host_settings.restore_limits(datetime.now(UTC)):
            _log.warning("limits of domains were set again", extra={"domains": changed})


@shared_task(name="resources.prune_fetch_timings", ignore_result=True)
def prune_fetch_timings() -> None:
    """Removes timings older than FETCH_TIMINGS_DAYS, for at most a second."""
    timings.prune_timings(datetime.now(UTC) - timedelta(days=settings.FETCH_TIMINGS_DAYS), PRUNE_SECONDS)


@shared_task(name="resources.reseal_fetch_headers", ignore_result=True)
def reseal_fetch_headers() -> None:
    """Seals headers again with today's SECRET_KEY if an earlier one has sealed them."""
    host_settings.reseal_headers()


@shared_task(name="resources.vary_demo", ignore_result=True)
def vary_demo() -> None:
    """Gives the demo's lines the speeds of this moment. Does nothing if an admin has deleted them."""
    with _log_outage("the demo waits", DatabaseError, OSError, LayerError):
        load.vary_speeds()


@shared_task(name=work.REFRESH_TASK, ignore_result=True)
def refresh_popular(slug: str, version: int) -> None:
    """Has popular tiles repainted that changes since a version have touched. Requests repaint the others."""
    with _log_outage("popular tiles wait to be asked for", StoreUnavailable, DatabaseError, layer=slug):
        work.refresh_popular_tiles(slug, version)


@shared_task(name="resources.prewarm", ignore_result=True)
def prewarm() -> None:
    """Has the most worthwhile popular content prepared, within the budget of a run."""
    limits = RunLimits(settings.PREWARM_POPULAR, settings.PREWARM_BUDGET_SECONDS, settings.PREWARM_SECONDS)
    errors = (StoreUnavailable, DatabaseError, LayerError)  # of layers: one was disabled a moment ago
    with _log_outage("popular content is not prepared before it is asked for", *errors):
        automatic_run.start_run(limits, datetime.now(UTC))


@shared_task(name="resources.settle_prewarm", ignore_result=True)
def settle_prewarm() -> None:
    """Counts the pieces of pre-warming that have ended. Waits for the next pass while Redis or the database is away."""
    with _log_outage("pieces of pre-warming are counted later", StoreUnavailable, DatabaseError):
        run_records.settle_runs(datetime.now(UTC))


@shared_task(name="resources.feed_mirror", ignore_result=True)
def feed_mirror() -> None:
    """Hands wanted URLs over to the fetchers. Waits for the next pass while Redis or the database is away."""
    with _log_outage("wanted URLs are not handed over", StoreUnavailable, DatabaseError):
        feeder.feed_fetchers(datetime.now(UTC))


@shared_task(name="resources.look_after_batches", ignore_result=True)
def look_after_batches() -> None:
    """Settles the batches of which a URL has ended, and has due webhooks called."""
    now = datetime.now(UTC)
    batches.settle_named_batches(batches.take_batch_names(), now)
    webhooks.hand_over_due_calls(now)


@shared_task(name="resources.heal_batches", ignore_result=True)
def heal_batches() -> None:
    """Settles batches whose news was lost, and reports lost URLs again."""
    batches.heal_batches(datetime.now(UTC), HEAL_BATCHES_SECONDS)


@shared_task(name="resources.learn_url_rules", ignore_result=True)
def learn_url_rules() -> None:
    """Proposes URL rules to the admins, and withdraws contradicted ones."""
    url_rules.learn_rules(current_rules(), LEARN_RULES_SECONDS, datetime.now(UTC))


@shared_task(name="resources.rekey_urls", ignore_result=True)
def rekey_urls() -> None:
    """Moves stored URLs to their keys under the rules of today. Waits for the next pass in an outage."""
    with _log_outage("URLs could not get their new keys", RedisError):
        rekey.rekey_rows(current_rules(), conf.settle_seconds(), REKEY_SECONDS, datetime.now(UTC))


@shared_task(name="resources.sweep_blobs", ignore_result=True)
def sweep_blobs() -> None:
    """Compares a part of the storage with the rows of blobs. Waits for the next round while one of them is away.

    First finishes distrusting the hosts that were caught lying, if that was interrupted.
    """
    now = datetime.now(UTC)
    with _log_outage("blobs could not be swept", StorageError, DatabaseError, OSError):
        room.correct_shelf(sweeper.shelf_at(now))
        hosts.finish_distrusting(now, DISTRUST_SECONDS)
        sweeper.sweep_shelf(sweeper.shelf_at(now), now)


@shared_task(name=takedown.FORGET_THUMBNAILS_TASK, ignore_result=True)
def forget_thumbnails(digest: str) -> None:
    """Removes the thumbnails of a taken-down file from the cache."""
    with _log_outage("thumbnails stay in the cache", RedisError, digest=digest):
        takedown.remove_thumbnails(digest)


@shared_task(name=takedown.CONTINUE_TAKEDOWN_TASK, ignore_result=True)
def go_on_taking_down(digest: str) -> None:
    """Refuses more of the very many URLs of a taken-down file. After an outage the sweeper does the rest."""
    with _log_outage("URLs are refused later", DatabaseError, digest=digest):
        takedown.continue_takedown(digest, REFUSE_SECONDS)


@shared_task(name="resources.prune_blobs", ignore_result=True)
def prune_blobs() -> None:
    """Removes blobs by MIRROR_MAX_BYTES and MIRROR_KEEP_DAYS, for some seconds at most."""
    with _log_outage("blobs could not be pruned", DatabaseError):
        if retention := conf.retention_limits():
            storage_retention.prune_blobs(retention, datetime.now(UTC), seconds=PRUNE_BLOBS_SECONDS)


@shared_task(name="resources.make_room", ignore_result=True)
def make_room() -> None:
    """Removes the mirrored files with the oldest last request while they take more than their share of the disk."""
    with _log_outage("no room was made on the disk", DatabaseError, OSError):
        if surplus := room.find_surplus():
            storage_retention.free_room(surplus, datetime.now(UTC), seconds=MAKE_ROOM_SECONDS)


@shared_task(name=old_rows.PRUNE_TASK, ignore_result=True)
def prune() -> None:
    """Removes old rows for some seconds, and has another task do the rest."""
    with _log_outage("old rows stay until tomorrow", DatabaseError):
        if not old_rows.prune_rows_for(PRUNE_ROWS_SECONDS, datetime.now(UTC)):
            old_rows.continue_pruning()


@shared_task(name="resources.paint_block", ignore_result=True)
def paint_block(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, layer: str, z: int, x: int, y: int, side: int, scale: int, image_format: str
) -> None:
    """Paints one metatile. Does not raise on failure."""
    worker.prepare(work_key, token, partial(paint, Metatile(layer, z, x, y, side, scale, image_format)))


@shared_task(name="resources.paint_static_map", ignore_result=True)
def paint_static_map(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, layers: str, zoom: int, x: int, y: int, width: int, height: int, image_format: str
) -> None:
    """Paints one static map. Does not raise on failure."""
    picture = StaticMap(tuple(layers.split(",")), zoom, x, y, width, height, image_format)
    worker.prepare(work_key, token, partial(render_static_map, picture))


@shared_task(name="resources.paint_thumbnail", ignore_result=True)
def paint_thumbnail(  # noqa: PLR0917  # a message's arguments are flat
    work_key: str, token: int, digest: str, width: int, height: int, image_format: str, fit: ThumbnailFit
) -> None:
    """Paints one thumbnail. Does not raise on failure."""
    worker.prepare(work_key, token, partial(paint_small, Thumbnail(digest, width, height, image_format, fit)))
