"""Places for requests in flight."""

from collections import deque
from collections.abc import Sequence

from resources.fetch.frontier.jobs import FetchLane
from resources.fetch.worker.engine import RECENT_PEAK_SECONDS, Slot, SlotPool


class Now:
    """A clock that tests move by hand."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def fill(slots: SlotPool, lane: FetchLane) -> Sequence[Slot]:
    """Takes a slot that is open for that lane."""
    taken = []
    while lane in slots.rooms:
        taken.append(slots.take(lane))
    return taken


def test_there_is_room_for_as_many_as_each_open_lane_can_take() -> None:
    slots = SlotPool(5, Now())
    assert slots.rooms == {"fast": 5, "slow": 4}
    fill(slots, "slow")
    assert slots.rooms == {"fast": 1}
    slots.take("fast")
    assert slots.rooms == {}


def test_the_lanes_share_what_is_left() -> None:
    slots = SlotPool(10, Now())
    slow = [slots.take("slow") for _ in range(3)]
    for _ in range(6):
        slots.take("fast")
    assert slots.rooms == {"fast": 1, "slow": 1}
    slow[0].leave()
    assert slots.rooms == {"fast": 2, "slow": 2}


def test_a_fifth_of_the_places_is_kept_for_what_is_fast() -> None:
    assert [len(fill(SlotPool(total, Now()), "slow")) for total in (2, 3, 20, 100)] == [1, 2, 16, 80]
    assert [len(fill(SlotPool(total, Now()), "fast")) for total in (2, 3, 20, 100)] == [2, 3, 20, 100]


def test_what_the_fast_lane_needed_of_late_is_kept_for_it() -> None:
    now = Now()
    slots = SlotPool(20, now)
    for place in [slots.take("fast") for _ in range(6)]:
        place.leave()
    now.seconds += RECENT_PEAK_SECONDS - 1
    assert slots.rooms == {"slow": 14, "fast": 20}
    now.seconds += 2 * RECENT_PEAK_SECONDS
    assert slots.rooms == {"slow": 16, "fast": 20}


def test_free_places_go_to_what_is_slow_first_until_it_has_half_of_them() -> None:
    slots = SlotPool(20, Now())
    waiting = deque(fill(slots, "fast"))
    for _ in range(40):  # neither lane ever runs out of jobs
        waiting.popleft().leave()
        first = next(iter(slots.rooms))
        place = slots.take(first)
        if first == "fast":
            waiting.append(place)
    assert (slots.taken["slow"], slots.taken["fast"]) == (10, 10)


def test_a_lane_that_holds_more_than_its_places_is_not_open() -> None:
    slots = SlotPool(3, Now())
    slots.take("slow")
    slots.take("fast").move("slow")
    assert slots.rooms == {"fast": 1}


def test_what_has_moved_leaves_the_fast_lane_its_fifth() -> None:
    slots = SlotPool(10, Now())
    for _ in range(20):
        slots.take("fast").move("slow")
    assert slots.rooms == {"fast": 2}


def test_a_place_is_left_once() -> None:
    slots = SlotPool(5, Now())
    first, _ = slots.take("fast"), slots.take("fast")
    first.leave()
    first.leave()
    assert slots.taken["fast"] == 1
