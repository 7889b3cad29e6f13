"""What is decided about a URL by what is known of its host."""

import pytest

from resources.fetching.outcomes import Failed, Failure, Timing
from resources.mirroring.gathering import deciding
from resources.mirroring.gathering.deciding import Trust
from resources.mirroring.gathering.validators import Strength, Validator
from resources.mirroring.gathering.work import Lane

DIGEST, OPAQUE = Validator("d", Strength.DIGEST), Validator("o", Strength.OPAQUE)


@pytest.mark.parametrize(
    ("trust", "keys"),
    [
        (Trust(), ["d"]),
        (Trust(confirmed=100), ["d"]),
        (Trust(confirmed_opaque=deciding.LEAST_CONFIRMED_OPAQUE), ["d", "o"]),
        (Trust(100, 100, lies=1), []),
    ],
)
def test_opaque_validators_count_once_confirmed_and_nothing_of_a_liar_does(trust: Trust, keys: list[str]) -> None:
    assert deciding.believed([DIGEST, OPAQUE], trust) == keys


@pytest.mark.parametrize(
    ("known", "digest"), [({}, None), ({"d": "x"}, "x"), ({"d": "x", "o": "x"}, "x"), ({"d": "x", "o": "y"}, None)]
)
def test_a_content_is_known_when_all_that_is_known_agrees(known: dict[str, str], digest: str | None) -> None:
    assert deciding.known_content(["d", "o"], known) == digest


def test_the_first_of_a_host_are_downloaded_and_then_one_in_so_many() -> None:
    def sampled(confirmed: int, luck: float) -> bool:
        return deciding.is_sampled(Trust(confirmed), first=3, every=20, luck=luck)

    assert [sampled(confirmed, 0.99) for confirmed in range(5)] == [True, True, True, False, False]
    assert [sampled(3, luck) for luck in (0, 0.049, 0.05)] == [True, True, False]
    assert deciding.is_sampled(Trust(100), first=0, every=1, luck=0.999)


@pytest.mark.parametrize(
    ("lane", "asked", "spared", "pays"),
    [
        ("fast", 100.0, 81.0, True),
        ("fast", 100.0, 79.0, False),
        ("large", 100.0, 21.0, True),
        ("large", 100.0, 19.0, False),
        ("large", 10.0, 10.0, False),  # too few to know
        ("fast", 0.0, 0.0, False),
    ],
)
def test_heads_come_first_where_they_cost_less(lane: Lane, asked: float, spared: float, pays: bool) -> None:
    assert deciding.asks_head_first(asked, spared, lane) is pays


@pytest.mark.parametrize("lane", ["fast", "large"])
def test_the_rule_for_heads_is_the_cheaper_side_of_its_cost_model(lane: Lane) -> None:
    for share in (number / 50 for number in range(51)):
        head_first, at_once = 1 + (1 - share), 1 + share * deciding.ABANDONING[lane]
        assert deciding.asks_head_first(1000, 1000 * share, lane) is (head_first < at_once)


@pytest.mark.parametrize(
    ("failure", "attempts", "final"),
    [
        (Failure.PERMANENT, 1, True),
        (Failure.REFUSED, 1, True),
        (Failure.TOO_BIG, 1, True),
        (Failure.EXPIRED, 1, True),
        (Failure.TRANSIENT, 2, False),
        (Failure.TRANSIENT, 3, True),
        (Failure.THROTTLED, 1, False),
        (Failure.OURS, 3, True),
    ],
)
def test_what_may_be_there_later_is_tried_so_often(failure: Failure, attempts: int, final: bool) -> None:
    assert deciding.is_final(Failed(failure, "", Timing(0, 0)), attempts, 3) is final


@pytest.mark.parametrize(
    ("status", "is_signed", "failure"),
    [
        (403, True, Failure.EXPIRED),
        (401, True, Failure.EXPIRED),
        (403, False, Failure.PERMANENT),
        (404, True, Failure.PERMANENT),
    ],
)
def test_a_signature_that_is_not_taken_is_as_good_as_expired(status: int, is_signed: bool, failure: Failure) -> None:
    failed = Failed(Failure.PERMANENT, "", Timing(0, 0), status)
    assert deciding.failure_of(failed, is_signed=is_signed) is failure
