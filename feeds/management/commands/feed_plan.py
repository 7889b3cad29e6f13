"""`manage.py feed_plan`: lists the feeds that a scan would fetch now, with order and durations. Fetches nothing."""

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from statistics import mean
from typing import Any

from django.core.management.base import CommandParser

from feeds.scan import due
from feeds.scan.due import DueFeed
from feeds.schedule import simulation
from feeds.schedule.order import PoolLimits
from feeds.schedule.simulation import MAX_COUNTED_TIMINGS, FeedPlan, PoolReplay
from resources.management.cli import SiteCommand, fail_clearly


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ArgumentTypeError("must be at least 1")
    return value


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e9:
        raise ArgumentTypeError("must not be negative")
    return value


class Command(SiteCommand):
    help = "Prints the feeds that a scan would fetch now, their order and the shortest duration. Fetches nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--all", action="store_true", help="include feeds that are not due; paused feeds stay out")
        parser.add_argument("--simulate", action="store_true", help="replay the recorded durations of fetches")
        parser.add_argument(
            "--rounds",
            type=_at_least_one,
            default=MAX_COUNTED_TIMINGS,
            help="number of recorded fetches per feed (%(default)s)",
        )
        parser.add_argument("--slots", type=_at_least_one, help="fetches at once, and feeds in a batch (FETCH_SLOTS)")
        parser.add_argument("--in-flight", type=_at_least_one, help="fetches at once from a host (FETCH_IN_FLIGHT)")
        parser.add_argument(
            "--gap", type=_not_negative, help="seconds between fetches from a host (FETCH_DELAY_SECONDS)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        limits = _read_limits(options)
        with fail_clearly():
            chosen = due.all_feeds() if options["all"] else due.due_feeds(datetime.now(UTC), due.ALL_FEEDS_LIMIT)
            fetches = due.expected_fetches(chosen)
            rounds = due.last_durations(chosen, options["rounds"]) if options["simulate"] else [None]
        plan = simulation.plan_fetches(fetches, limits, rounds[0])
        self._list(plan, {one.key: one for one in chosen}, simulated=options["simulate"])
        self._sum_up(plan, limits)
        if len(rounds) > 1 and fetches:
            self._compare([plan, *(simulation.plan_fetches(fetches, limits, took) for took in rounds[1:])])

    def _list(self, plan: FeedPlan, by_key: dict[str, DueFeed], *, simulated: bool) -> None:
        took = f"{'took':>9}" if simulated else ""
        self.stdout.write(f"ordinal  expected{took}   begins  address")
        for ordinal, run in enumerate(plan.replay.runs, 1):
            really = f"{run.ended - run.began:>8.2f}s" if simulated else ""
            expected = f"{run.fetch.seconds:>8.2f}s"
            one = by_key[run.fetch.key]
            named = f"{one.url} (flagged)" if one.is_flagged else one.url
            self.stdout.write(f"{ordinal:>7} {expected}{really} {run.began:>7.1f}s  {named}")

    def _sum_up(self, plan: FeedPlan, limits: PoolLimits) -> None:
        number, bound = len(plan.replay.runs), plan.bound
        gaps = f"{limits.in_flight} at once from a host, {limits.gap_seconds:g} s apart"
        self.stdout.write(f"\n{number:,} feeds, {limits.slots} at once, {gaps}.")
        if not number:
            return
        expected = sum(run.fetch.seconds for run in plan.replay.runs)
        self.stdout.write(f"Expected in all: {expected:,.1f} s of fetching.")
        self.stdout.write(f"Lower bound: {bound.seconds:,.1f} s, since {bound.why}.")
        for name, replay in (
            ("this order", plan.replay),
            ("longest chain first", plan.longest_first),
            ("shortest first", plan.shortest_first),
            (f"batches of {limits.slots}, shortest first", plan.ordered_batches),
            (f"batches of {limits.slots}, as given", plan.batches),
        ):
            self.stdout.write(_replay_line(name, replay, plan.ratio(replay)))

    def _compare(self, plans: Sequence[FeedPlan]) -> None:
        """Compares the orders for each round of recorded fetches; the first round has the latest of each feed."""
        self.stdout.write(f"\n{len(plans)} rounds of recorded fetches, makespan ÷ the bound:")
        for name, ratios in (
            ("this order", [plan.ratio(plan.replay) for plan in plans]),
            ("longest chain first", [plan.ratio(plan.longest_first) for plan in plans]),
            ("shortest first", [plan.ratio(plan.shortest_first) for plan in plans]),
            ("batches, shortest first", [plan.ratio(plan.ordered_batches) for plan in plans]),
            ("batches, as given", [plan.ratio(plan.batches) for plan in plans]),
        ):
            self.stdout.write(f"{name + ':':<32} {mean(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")


def _read_limits(options: dict[str, Any]) -> PoolLimits:
    usual = due.fetcher_limits()
    given = {"slots": options["slots"], "in_flight": options["in_flight"], "gap_seconds": options["gap"]}
    return replace(usual, **{name: value for name, value in given.items() if value is not None})


def _replay_line(name: str, replay: PoolReplay, ratio: float) -> str:
    took, mean = f"{replay.makespan_seconds:>9,.1f} s", replay.mean_completion_seconds
    return f"{name + ':':<32} {took}, {ratio:.3f} × the bound; a feed is done after {mean:,.1f} s on average"
