"""Files of the hot cache that nginx never looks at again. With a real nginx: tests/nginx."""

from pathlib import Path

from project import unfinished

KEY = "0123456789abcdef" * 2


def test_what_nobody_writes_any_more_is_removed_and_answers_stay(tmp_path: Path) -> None:
    folder = tmp_path / "f" / "de"
    folder.mkdir(parents=True)
    answer, left, written = (folder / name for name in (KEY, f"{KEY}.0000000042", f"{KEY}.0000000043"))
    for file in (answer, left):
        file.touch()
    with written.open("wb"):
        assert unfinished.remove(tmp_path) == 1
    assert {*folder.iterdir()} == {answer, written}


def test_a_cache_that_is_not_there_yet_has_none(tmp_path: Path) -> None:
    assert unfinished.remove(tmp_path / "hot") == 0


def test_a_cache_behind_a_link_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "hot").symlink_to("real")
    with (tmp_path / "real" / f"{KEY}.0000000042").open("wb"):
        assert unfinished.remove(tmp_path / "hot") == 0
    assert unfinished.remove(tmp_path / "hot") == 1
