"""The shares of a bounded disk: together they never exceed the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.disk.shares import LEAST_BYTES, TRAFFIC_LOGS, UPLOADS_AT_A_TIME, DiskData, divide_disk

SIZES = st.integers(0, 4 * LEAST_BYTES)


@given(st.integers(LEAST_BYTES, 10**13), SIZES, SIZES, SIZES)
def test_all_parts_and_the_reserve_are_the_bound_unless_the_data_are_larger(
    bound: int, database: int, state: int, other: int
) -> None:
    data = DiskData(database, database // 10, state, 0, other)
    shares = divide_disk(bound, data)
    limit = shares.files_limit(data)
    fixed = shares.hot_bytes + shares.logs_bytes + shares.temporary_bytes
    assert data.total_bytes + data.reserve_bytes(bound) + fixed + limit == bound
    assert fixed <= max(bound - data.total_bytes - data.reserve_bytes(bound), bound // 8)
    if data.total_bytes + data.reserve_bytes(bound) < bound * 3 / 4:
        assert limit > 0
        assert not shares.is_full(data)


@given(st.integers(LEAST_BYTES, 10**13), st.integers(1_000, 50_000_000))
def test_no_part_uses_more_than_its_share(bound: int, delivery: int) -> None:
    shares = divide_disk(bound, DiskData())
    assert 0 < shares.hot_max_bytes < shares.hot_max_bytes + shares.hot_burst_bytes <= shares.hot_bytes
    logs = TRAFFIC_LOGS * shares.traffic_log_bytes + 30 * shares.process_log_bytes(30)
    assert 0 < logs <= shares.logs_bytes
    uploads = 2 * UPLOADS_AT_A_TIME * shares.upload_max_bytes
    deliveries = shares.count_deliveries(delivery) * delivery
    assert uploads + min(deliveries, shares.temporary_bytes // 4) <= shares.temporary_bytes
    assert shares.count_deliveries(delivery) == 1 or deliveries <= shares.temporary_bytes // 4


@pytest.mark.parametrize("taken", [LEAST_BYTES * 9 // 10, LEAST_BYTES, 3 * LEAST_BYTES])
def test_data_that_fill_the_bound_leave_shares_to_start_with_and_the_disk_is_full(taken: int) -> None:
    data = DiskData(database_bytes=taken)
    shares = divide_disk(LEAST_BYTES, data)
    assert shares.hot_bytes > 0
    assert shares.is_full(data)


def test_the_room_for_files_follows_the_data() -> None:
    shares = divide_disk(LEAST_BYTES, DiskData())
    before, after = (shares.files_limit(DiskData(database_bytes=size)) for size in (0, 50_000_000))
    assert before - after == 50_000_000
