"""Files of the hot cache that nginx never looks at again."""

from pathlib import Path

from project import forgetting

KEY = "0123456789abcdef" * 2


def test_what_a_killed_worker_was_writing_is_removed_and_answers_stay(tmp_path: Path) -> None:
    folder = tmp_path / "f" / "de"
    folder.mkdir(parents=True)
    answer, unfinished = folder / KEY, folder / f"{KEY}.0000000042"
    for file in (answer, unfinished):
        file.touch()
    forgetting.remove_unfinished(tmp_path)
    assert [*folder.iterdir()] == [answer]
