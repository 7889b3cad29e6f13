from resources.static_map import asking
from resources.traffic.asked import Asked


def test_static_maps_are_counted_and_what_only_begins_like_one_is_not() -> None:
    assert asking.asked("/staticmap") == Asked("staticmap")
    assert asking.asked("/staticmaps") is None
