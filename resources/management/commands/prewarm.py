"""`manage.py prewarm`: has popular content, and whole areas of layers, prepared before they are requested."""

import asyncio
import contextlib
import os
import signal
import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import Error as DatabaseError
from tqdm import tqdm  # type: ignore[import-untyped]

from resources.database import run_then_disconnect, usable_connections
from resources.image_formats import DEFAULT_TILE_FORMAT, TILE_FORMATS
from resources.prewarm import area as prewarm_area
from resources.prewarm import hot_cache, run_records
from resources.prewarm import plan as prewarm_plan
from resources.prewarm.pieces import PrewarmRule
from resources.prewarm.plan import DEFAULT_POPULAR, PrewarmPlan
from resources.prewarm.progress import RunPace, RunProgress, RunTally
from resources.prewarm.runner import PrewarmRun
from resources.prewarm.tile_pieces import TileVariant
from resources.tiles.errors import LayerError
from retry import stores
from retry.errors import StoreUnavailable

from .. import cli
from ..cli import INTERRUPTED_EXIT_CODE, SiteCommand, fail_clearly

VARIANTS = {
    f"{name}{'@2x' if scale == 2 else ''}": TileVariant(scale, name) for scale in (1, 2) for name in TILE_FORMATS
}
PRINT_INTERVAL_SECONDS = 10.0
FEED_KINDS = ("feed", "feeds")
"""The kinds of pages of feeds in PREWARM."""

NICE_LEVEL = 15
"""The command leaves the processors to the processes that serve and paint."""

Number = TypeVar("Number", int, float)
GO_ON_HINT = "To go on, give the same options and --continue."


def _number_up_to(read: Callable[[str], Number], most: float, wanted: str) -> Callable[[str], Number]:
    """Returns a type of argument: a number above 0, at most `most`. argparse names the `wanted` value otherwise."""

    def parse(text: str) -> Number:
        with contextlib.suppress(ValueError):
            number = read(text)
            if 0 < number <= most:
                return number
        raise ArgumentTypeError(f"not {wanted}")

    return parse


_parse_count = _number_up_to(int, 1_000_000, "a whole number from 1 to a million")
_parse_seconds = _number_up_to(float, 31_536_000, "seconds, more than 0 and at most those of a year")
_parse_rate = _number_up_to(float, 1_000_000, "a number above 0")


class Command(SiteCommand):
    help = (
        "Prepares tiles before any request: the tiles of an area (--zoom, --bbox, --geojson), or the most popular. "
        "Fresh tiles are skipped. It can be stopped at any time, and continued; two at once share the work."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--layer", action="append", default=[], metavar="SLUG", help="the layer; repeat it for several layers")
        add("--zoom", metavar="Z or Z1-Z2", help="all tiles of these zooms")
        area = parser.add_mutually_exclusive_group()
        area.add_argument("--bbox", metavar="W,S,E,N", help="all tiles of this box, in degrees")
        area.add_argument("--geojson", metavar="FILE", help="all tiles of the file's polygons")
        add(
            "--popular",
            type=_parse_count,
            metavar="N",
            help=f"only the N most popular (without an area: {DEFAULT_POPULAR:,})",
        )
        add("--feeds", action="store_true", help="pages of feeds; without options for layers, only these")
        add("--kind", action="append", default=[], choices=settings.PREWARM, help="other popular content, likewise")
        add("--variant", action="append", choices=VARIANTS, help="format of an area's tiles; default: png")
        add("--expired", action="store_true", help="only tiles in the cache that are no longer fresh")
        add(
            "--older-than",
            type=_parse_seconds,
            metavar="SECONDS",
            help="also fresh tiles that were prepared longer ago",
        )
        add("--concurrency", type=_parse_count, default=4, help="pieces of work at a time (4)")
        add("--rate", type=_parse_rate, metavar="TILES", help="at most so many tiles per second")
        add("--duration", type=_parse_seconds, metavar="SECONDS", help="stop after this time")
        add(
            "--dry-run",
            action="store_true",
            help="print the number of tiles, the duration and the bytes, and prepare none",
        )
        add("--continue", action="store_true", dest="go_on", help="continue a stopped run of the same options")
        add("--every", type=_parse_seconds, metavar="SECONDS", help="repeat at this interval")
        add("--prune", action="store_true", help="only remove tiles from the cache that can no longer be served")

    def run_from_argv(self, argv: list[str]) -> None:
        os.nice(NICE_LEVEL)
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        with fail_clearly(GO_ON_HINT):
            try:
                self._handle(options)
            except StoreUnavailable as error:
                raise CommandError(f"Redis does not answer: {error}. {GO_ON_HINT}") from error

    def _handle(self, options: dict[str, Any]) -> None:
        if options["prune"]:
            known, removed = hot_cache.prune_useless_tiles(dry_run=options["dry_run"])
            word = "would be removed" if options["dry_run"] else "removed"
            self.stdout.write(f"{known:,} tiles in the cache, {removed:,} {word}.")
            return
        plan, rule = _make_plan(options), _make_rule(options)
        if options["dry_run"]:
            for line in prewarm_plan.describe_plan(plan, rule):
                self.stdout.write(line)
            return
        if options["every"] is None:
            self._once(plan, rule, options)
        else:
            self._repeat(options)

    def _repeat(self, options: dict[str, Any]) -> None:
        """Runs again and again; a failure may not repeat the next time."""
        while True:
            began = time.monotonic()
            try:
                with usable_connections():
                    plan = _make_plan(options)
                self._once(plan, _make_rule(options), options)
            except (DatabaseError, LayerError, StoreUnavailable) as error:
                self.stderr.write(f"{error}. It is retried at the next run.")
            except CommandError as error:
                if error.returncode == INTERRUPTED_EXIT_CODE:
                    raise
                self.stderr.write(str(error))
            options["go_on"] = False
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts as Ctrl-C between two runs, too
            time.sleep(max(0.0, options["every"] - (time.monotonic() - began)))

    def _once(self, plan: PrewarmPlan, rule: PrewarmRule, options: dict[str, Any]) -> None:
        """Does one run, and keeps a note of its start until it has finished."""
        name, now = prewarm_plan.name_run(_run_options(options)), datetime.now(UTC)
        before = prewarm_plan.find_run_start(name) if options["go_on"] else None
        if options["go_on"] and before is None:
            self.stdout.write("There is no stopped run with these options: a new run starts.")
        prewarm_plan.note_run_start(name, before or now)
        rule = PrewarmRule(rule.only_expired, rule.older_than, before)
        pace = RunPace(options["concurrency"], options["rate"], options["duration"])
        run = asyncio.run(self._run(plan, rule, pace))
        self._say(run.tally)
        with contextlib.suppress(DatabaseError), usable_connections():  # the admin lacks one run
            run_records.record_command(run.tally, now, datetime.now(UTC))
        if run.tally.broken:
            raise CommandError(f"Redis does not answer: {run.tally.broken}. {GO_ON_HINT}")
        if self._signalled:
            raise CommandError(f"Stopped. {GO_ON_HINT}", returncode=INTERRUPTED_EXIT_CODE)
        if run.is_stopped:
            self.stdout.write(f"The time is up. {GO_ON_HINT}")
        else:
            prewarm_plan.forget_run(name)
        if run.tally.pieces["failed"]:
            raise CommandError(f"{run.tally.pieces['failed']:,} pieces failed.", returncode=1)

    async def _run(self, plan: PrewarmPlan, rule: PrewarmRule, pace: RunPace) -> PrewarmRun:
        self._signalled = False
        clients = stores.async_clients(patient=True)
        number, pieces = await asyncio.to_thread(run_then_disconnect, plan.counted)
        progress = RunProgress(number, time.monotonic())
        task = asyncio.current_task()
        with tqdm(total=progress.total, unit=" pieces", disable=None, leave=False) as bar:
            show = self._make_progress_callback(bar, progress)
            async with hot_cache.HotCacheFiller(settings.PREWARM_FRONT, hot_cache.front_hosts()) as cache:
                run = PrewarmRun(clients, cache, rule, pace, show)

                def stop() -> None:
                    if self._signalled and task:  # the second time: without waiting for pieces in hand
                        task.cancel()
                    self._signalled = True
                    run.stop()

                for number in (signal.SIGINT, signal.SIGTERM):
                    asyncio.get_running_loop().add_signal_handler(number, stop)
                with contextlib.suppress(asyncio.CancelledError):
                    await run.run(pieces)
        for client in clients.values():
            await client.aclose()
        return run

    def _make_progress_callback(self, bar: tqdm, progress: RunProgress) -> Any:
        said_at = time.monotonic()

        def show(tiles: int) -> None:
            nonlocal said_at
            now = time.monotonic()
            progress.settle(tiles, now)
            if not bar.disable:
                bar.update(1)
                bar.set_postfix_str(f"{progress.tiles_per_second(now):,.0f} tiles/s", refresh=False)
            elif now - said_at >= PRINT_INTERVAL_SECONDS:
                said_at = now
                self.stdout.write(progress.describe(now))

        return show

    def _say(self, tally: RunTally) -> None:
        self.stdout.write(tally.describe())
        for work_key, why in tally.failures.items():
            self.stderr.write(f"{work_key}: {why}")


def _make_plan(options: dict[str, Any]) -> PrewarmPlan:
    """Returns the plan of the options. Raises LayerError."""
    part = cli.parse_part(options["bbox"], options["zoom"])
    area = None
    if options["geojson"]:
        with Path(options["geojson"]).open("rb") as file:
            area = prewarm_area.area_of_geojson(file.read(prewarm_area.MAX_AREA_BYTES + 1))
    elif part and options["bbox"]:
        area = prewarm_area.area_of_bounds(part.bounds)
    is_covering = part is not None or area is not None or options["expired"] or options["older_than"] is not None
    others = (*options["kind"], *(FEED_KINDS if options["feeds"] else ()))
    plan = PrewarmPlan(
        slugs=tuple(dict.fromkeys(options["layer"])),
        zooms=(part.min_zoom, part.max_zoom) if part else (0, 99),
        area=area,
        popular=options["popular"] or (None if is_covering else DEFAULT_POPULAR),
        others=others,
        tiles=bool(options["layer"]) or is_covering or not others,
        variants=tuple(VARIANTS[each] for each in options["variant"] or [DEFAULT_TILE_FORMAT]),
        horizon_seconds=options["every"] or 3600.0,
    )
    if plan.tiles and not plan.layers:
        raise LayerError("There are no layers.")
    if plan.tiles:
        _ = plan.coverages  # raises the plan's mistakes before anything is begun
    return plan


def _make_rule(options: dict[str, Any]) -> PrewarmRule:
    older = options["older_than"]
    return PrewarmRule(options["expired"], None if older is None else timedelta(seconds=older))


def _run_options(options: dict[str, Any]) -> dict[str, Any]:
    names = ("layer", "zoom", "bbox", "geojson", "popular", "feeds", "kind", "variant", "expired", "older_than")
    return {name: options[name] for name in names}
