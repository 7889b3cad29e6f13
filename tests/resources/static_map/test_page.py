"""docs/add-your-own.md: the code that it shows is the site's own."""

import re

import pytest

from project.paths import BASE_DIR

PAGE = (BASE_DIR / "docs" / "add-your-own.md").read_text()
SHOWN = re.findall(r"```python\n# (resources/\S+\.py)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("path", "code"), SHOWN, ids=[path for path, _ in SHOWN])
def test_what_the_page_shows_stands_in_the_file(path: str, code: str) -> None:
    assert code in (BASE_DIR / path).read_text()


def test_the_page_shows_every_part() -> None:
    files = {path.rpartition("/")[2] for path, _ in SHOWN}
    assert files == {"picture.py", "preparing.py", "tasks.py", "views.py", "urls.py"}
