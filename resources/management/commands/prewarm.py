"""`manage.py prewarm`: has popular content, and whole areas of layers, prepared before anybody asks."""

import asyncio
import contextlib
import os
import signal
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseError
from tqdm import tqdm  # type: ignore[import-untyped]

from resources.management import parts
from resources.management.failing import INTERRUPTED, failing_clearly
from resources.threads import asked_once, usable_connections
from resources.tiles.errors import LayerError
from resources.warming import coverage, dry, hot, interrupted, pruning
from resources.warming.pieces import Rule
from resources.warming.plan import USUAL_POPULAR, Plan
from resources.warming.progress import Progress
from resources.warming.running import Run
from resources.warming.tally import Pace, Tally
from resources.warming.tiles import Variant
from retry import connections
from retry.errors import StoreUnavailable

VARIANTS = {"png": Variant(), "webp": Variant(1, "webp"), "png@2x": Variant(2), "webp@2x": Variant(2, "webp")}
SAID_EVERY_SECONDS = 10.0
NICE = 15
"""As a process of its own it leaves the processors to those who serve and paint."""

MOST_SECONDS = 31_536_000
MOST_TILES_A_SECOND = 1_000_000
GO_ON = "To go on, give the same options and --continue."


class Command(BaseCommand):
    help = (
        "Has tiles prepared before anybody asks: those of an area (--zoom, --bbox, --geojson), or the most popular. "
        "What is fresh is skipped. It can be stopped at any time, and continued; two at once share the work."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("--layer", action="append", default=[], metavar="SLUG", help="the layer; several times for several")
        add("--zoom", metavar="Z or Z1-Z2", help="all tiles of these zooms")
        area = parser.add_mutually_exclusive_group()
        area.add_argument("--bbox", metavar="W,S,E,N", help="all tiles that show something of this box, in degrees")
        area.add_argument("--geojson", metavar="FILE", help="all tiles that show something of the file's polygons")
        add("--popular", type=_count, metavar="N", help=f"only the N most popular (without an area: {USUAL_POPULAR:,})")
        add("--feeds", action="store_true", help="pages of feeds; without options of layers, nothing else")
        add("--variant", action="append", choices=VARIANTS, help="of an area; png if nothing is said")
        add("--expired", action="store_true", help="only what is in the cache and not fresh any more")
        add("--older-than", type=_seconds, metavar="SECONDS", help="also what is fresh but was prepared longer ago")
        add("--concurrency", type=_count, default=4, help="pieces of work in hand at a time (4)")
        add("--rate", type=_rate, metavar="TILES", help="tiles a second at most")
        add("--duration", type=_seconds, metavar="SECONDS", help="ends after this time")
        add("--dry-run", action="store_true", help="only tells how much it is, how long it takes, how many bytes")
        add(
            "--continue", action="store_true", dest="go_on", help="goes on with a run of these options that was stopped"
        )
        add("--every", type=_seconds, metavar="SECONDS", help="does it again and again, so often")
        add("--prune", action="store_true", help="removes tiles from the cache that nobody can be served; no more")

    def run_from_argv(self, argv: list[str]) -> None:
        os.nice(NICE)
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        with failing_clearly(GO_ON):
            try:
                self._handle(options)
            except StoreUnavailable as error:
                raise CommandError(f"Redis does not answer: {error}. {GO_ON}") from error

    def _handle(self, options: dict[str, Any]) -> None:
        if options["prune"]:
            known, removed = pruning.prune(dry_run=options["dry_run"])
            word = "would be removed" if options["dry_run"] else "removed"
            self.stdout.write(f"{known:,} tiles in the cache, {removed:,} {word}.")
            return
        plan, rule = _plan(options), _rule(options)
        if options["dry_run"]:
            for line in dry.lines(plan, rule):
                self.stdout.write(line)
            return
        if options["every"] is None:
            self._once(plan, rule, options)
        else:
            self._repeat(options)

    def _repeat(self, options: dict[str, Any]) -> None:
        """Again and again; what goes wrong one time may go well the next."""
        while True:
            began = time.monotonic()
            try:
                with usable_connections():
                    plan = _plan(options)
                self._once(plan, _rule(options), options)
            except (DatabaseError, LayerError, StoreUnavailable) as error:
                self.stderr.write(f"{error}. The next time it is tried again.")
            except CommandError as error:
                if error.returncode == INTERRUPTED:
                    raise
                self.stderr.write(str(error))
            options["go_on"] = False
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # between two runs, too, it stops as Ctrl-C does
            time.sleep(max(0.0, options["every"] - (time.monotonic() - began)))

    def _once(self, plan: Plan, rule: Rule, options: dict[str, Any]) -> None:
        """One run, which leaves a note of its beginning as long as it has not come to its end."""
        name, now = interrupted.name_of(_asked(options)), datetime.now(UTC)
        before = interrupted.begun(name) if options["go_on"] else None
        if options["go_on"] and before is None:
            self.stdout.write("No run with these options was stopped: it begins anew.")
        interrupted.begin(name, before or now)
        rule = Rule(rule.only_expired, rule.older_than, before)
        pace = Pace(options["concurrency"], options["rate"], options["duration"])
        run = asyncio.run(self._run(plan, rule, pace))
        self._say(run.tally)
        if run.tally.broken:
            raise CommandError(f"Redis does not answer: {run.tally.broken}. {GO_ON}")
        if self._signalled:
            raise CommandError(f"Stopped. {GO_ON}", returncode=INTERRUPTED)
        if run.is_stopped:
            self.stdout.write(f"The time is up. {GO_ON}")
        else:
            interrupted.end(name)
        if run.tally.pieces["failed"]:
            raise CommandError(f"{run.tally.pieces['failed']:,} pieces failed.", returncode=1)

    async def _run(self, plan: Plan, rule: Rule, pace: Pace) -> Run:
        self._signalled = False
        clients: connections.Clients = {
            "state": connections.async_client("state", patient=True),
            "cache": connections.async_client("cache", patient=True),
        }
        number, pieces = await asyncio.to_thread(asked_once, plan.counted)
        progress = Progress(number, time.monotonic())
        task = asyncio.current_task()
        with tqdm(total=progress.total, unit=" pieces", disable=None, leave=False) as bar:
            show = self._shower(bar, progress)
            async with hot.HotCache(settings.PREWARM_FRONT, hot.hosts()) as cache:
                run = Run(clients, cache, rule, pace, show)

                def stop() -> None:
                    if self._signalled and task:  # the second time: without waiting for what is in hand
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

    def _shower(self, bar: tqdm, progress: Progress) -> Any:
        said_at = time.monotonic()

        def show(tiles: int) -> None:
            nonlocal said_at
            now = time.monotonic()
            progress.settle(tiles, now)
            if not bar.disable:
                bar.update(1)
                bar.set_postfix_str(f"{progress.tiles_per_second(now):,.0f} tiles/s", refresh=False)
            elif now - said_at >= SAID_EVERY_SECONDS:
                said_at = now
                self.stdout.write(progress.describe(now))

        return show

    def _say(self, tally: Tally) -> None:
        self.stdout.write(tally.describe())
        for work_key, why in tally.failures.items():
            self.stderr.write(f"{work_key}: {why}")


def _plan(options: dict[str, Any]) -> Plan:
    """What is asked for. Raises LayerError."""
    part = parts.part(options["bbox"], options["zoom"])
    area = None
    if options["geojson"]:
        with Path(options["geojson"]).open("rb") as file:
            area = coverage.of_geojson(file.read(coverage.MOST_BYTES + 1))
    elif part and options["bbox"]:
        area = coverage.of_bounds(part.bounds)
    is_covering = part is not None or area is not None or options["expired"] or options["older_than"] is not None
    plan = Plan(
        slugs=tuple(dict.fromkeys(options["layer"])),
        zooms=(part.min_zoom, part.max_zoom) if part else (0, 99),
        area=area,
        popular=options["popular"] or (None if is_covering else USUAL_POPULAR),
        others=options["feeds"],
        tiles=bool(options["layer"]) or is_covering or not options["feeds"],
        variants=tuple(VARIANTS[each] for each in options["variant"] or ["png"]),
        horizon_seconds=options["every"] or 3600.0,
    )
    if plan.tiles and not plan.layers:
        raise LayerError("There are no layers.")
    if plan.tiles:
        _ = plan.coverages  # raises what is wrong with it before anything is begun
    return plan


def _rule(options: dict[str, Any]) -> Rule:
    older = options["older_than"]
    return Rule(options["expired"], None if older is None else timedelta(seconds=older))


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    """What makes two runs the same."""
    names = ("layer", "zoom", "bbox", "geojson", "popular", "feeds", "variant", "expired", "older_than")
    return {name: options[name] for name in names}


def _count(text: str) -> int:
    with _told("a whole number from 1 to a million"):
        number = int(text)
        if not 0 < number <= 1_000_000:
            raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    with _told("seconds, more than 0 and at most those of a year"):
        return _up_to(text, MOST_SECONDS)


def _rate(text: str) -> float:
    with _told("a number above 0"):
        return _up_to(text, MOST_TILES_A_SECOND)


def _up_to(text: str, most: float) -> float:
    number = float(text)
    if not 0 < number <= most:
        raise ValueError(text)
    return number


@contextlib.contextmanager
def _told(wanted: str) -> Iterator[None]:
    """Has argparse say what is wanted, when a number cannot be read or is out of bounds."""
    try:
        yield
    except ValueError as error:
        raise ArgumentTypeError(f"not {wanted}") from error
