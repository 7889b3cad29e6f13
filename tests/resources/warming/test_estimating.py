import pytest

from resources.warming import estimating
from resources.warming.estimating import Costs, Estimate
from resources.warming.progress import Progress

COSTS = Costs({4: 0.5, 10: 2.0}, {4: 1000.0})


def test_an_estimate_is_by_pieces_of_work_and_by_tiles() -> None:
    assert Estimate.of(4, 256, 4, COSTS) == Estimate(256, 4, 2.0, 256_000.0)


def test_a_zoom_of_which_nothing_is_known_is_like_the_nearest() -> None:
    assert COSTS.seconds_at(5) == 0.5
    assert COSTS.seconds_at(7) == 0.5
    assert COSTS.seconds_at(8) == 2.0
    assert Costs({}, {}).seconds_at(3) == estimating.UNKNOWN_SECONDS
    assert Costs({}, {}).bytes_at(3) is None


def test_estimates_add_up_and_an_unknown_size_makes_the_whole_unknown() -> None:
    known = Estimate(1, 2, 3.0, 4.0)
    assert estimating.total([known, known]) == Estimate(2, 4, 6.0, 8.0)
    assert estimating.total([known, Estimate(1, 1, 1.0, None)]).size_bytes is None


def test_it_is_told_in_words() -> None:
    said = estimating.describe(Estimate(5461, 100, 76.0, 41_000_000.0), workers=2)
    assert said == "5,461 tiles in 100 pieces of work, about 38 s, about 41 MB"
    assert estimating.describe(Estimate(1, 1, 1.0, None)) == "1 tile in 1 piece of work, about 1.0 s, size not known"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.02, "20 ms"), (0.25, "0.2 s"), (38, "38 s"), (720, "12 min"), (12_240, "3.4 h"), (181_440, "2.1 days")],
)
def test_times_in_words(seconds: float, said: str) -> None:
    assert estimating.in_seconds(seconds) == said


def test_sizes_in_words() -> None:
    assert [estimating.in_bytes(each) for each in (412, 1500, 41e6, 1.2e9)] == [
        "412 bytes",
        "1.5 KB",
        "41 MB",
        "1.2 GB",
    ]


def test_progress_tells_the_rate_and_what_is_left() -> None:
    progress = Progress(total=100, began=0.0)
    assert progress.seconds_left(0.0) is None
    for second in range(1, 21):
        progress.settle(16, float(second))
    assert progress.tiles_per_second(20.0) == pytest.approx(16, rel=0.1)
    assert progress.seconds_left(20.0) == pytest.approx(80, rel=0.1)
    assert progress.describe(20.0).startswith("20 of 100 pieces, 16.")


def test_the_rate_is_that_of_late() -> None:
    progress = Progress(total=None, began=0.0)
    for second in range(1, 1001):
        progress.settle(0 if second < 900 else 10, float(second))
    assert progress.tiles_per_second(1000.0) == pytest.approx(10, rel=0.1)
    assert len(progress._moments) < 70
    assert progress.seconds_left(1000.0) is None
