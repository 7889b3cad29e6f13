from resources.tiles.last_used import LastUsed


def test_a_value_is_made_once_while_it_is_kept() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    kept: LastUsed[object] = LastUsed()
    assert kept.get("a", make, most=1) is kept.get("a", make, most=1)
    assert len(made) == 1


def test_the_value_used_longest_ago_goes_first() -> None:
    kept: LastUsed[str] = LastUsed()
    kept.get("a", lambda: "A", most=2)
    kept.get("b", lambda: "B", most=2)
    kept.find("a")
    kept.get("c", lambda: "C", most=2)
    assert [kept.find(key) for key in ("a", "b", "c")] == ["A", None, "C"]
