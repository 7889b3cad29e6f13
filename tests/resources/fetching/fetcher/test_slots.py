"""Places for requests in flight."""

from resources.fetching.fetcher.slots import Slots


def test_there_is_room_for_as_many_as_each_open_lane_can_take() -> None:
    slots = Slots(fast=8, slow=2)
    assert slots.rooms == {"fast": 8, "slow": 2}
    slots.take("slow")
    assert slots.rooms == {"fast": 8, "slow": 1}
    slots.take("slow")
    assert slots.rooms == {"fast": 8}


def test_a_lane_that_holds_more_than_its_places_is_not_open() -> None:
    slots = Slots(fast=2, slow=1)
    slots.take("slow")
    slots.take("fast").move("slow")
    assert slots.rooms == {"fast": 2}
