"""The documentation: what it points to is there, and it is as short as it promises."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from project.paths import BASE_DIR

PAGES = sorted([*BASE_DIR.glob("*.md"), *(BASE_DIR / "docs").rglob("*.md"), BASE_DIR / "nginx" / "README.md"])
ARCHITECTURE = BASE_DIR / "docs" / "ARCHITECTURE.md"

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"manage\.py (\w+)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_MODULE = re.compile(r"^\| (`[^|]+) \|", re.MULTILINE)


def links(page: Path) -> list[str]:
    """The relative links of a page."""
    found = _LINK.findall(page.read_text())
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings are linked to."""
    headings = _HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named(page: Path) -> str:
    return str(page.relative_to(BASE_DIR))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_relative_link_points_to_a_file(page: Path) -> None:
    missing = [link for link in links(page) if not (page.parent / link.partition("#")[0]).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_to_a_heading_finds_it(page: Path) -> None:
    lost = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if anchor and anchor not in anchors(target):
            lost.append(link)
    assert not lost


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_that_is_named_exists(page: Path) -> None:
    assert set(_COMMAND.findall(page.read_text())) <= set(get_commands()) | {"runserver"}


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(ARCHITECTURE.read_text().splitlines()) <= 150


@pytest.mark.parametrize("package", ["retry", "resources", "feeds", "project"])
def test_the_architecture_names_only_modules_that_exist(package: str) -> None:
    section = ARCHITECTURE.read_text().split(f"\n`{package}/`: ")[1].split("\n\n`")[0]
    names = [name for row in _MODULE.findall(section) for name in re.findall(r"`([^`]+)`", row)]
    assert names
    missing = [name for name in names if not any((BASE_DIR / package / f"{name}{end}").exists() for end in ("", ".py"))]
    assert not missing


def test_every_logger_of_the_site_is_in_the_table_of_operations() -> None:
    files = [
        path for package in ("retry", "resources", "feeds", "project") for path in (BASE_DIR / package).rglob("*.py")
    ]
    used = {name for path in files for name in re.findall(r"getLogger\(\"(tarry\.\w+)\"\)", path.read_text())}
    table = (BASE_DIR / "docs" / "operations.md").read_text().split("| logger | tells |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `(tarry\.\w+)`", table, re.MULTILINE)) == sorted(used)


def test_each_promise_of_security_is_shown_by_tests_that_exist() -> None:
    page = (BASE_DIR / "docs" / "security.md").read_text()
    promises = page.split("## What holds")[1].split("\n## ")[0]
    rows = [row for row in promises.splitlines() if row.startswith("| ") and not row.startswith("| promise")]
    assert [row for row in rows if "::" not in row] == []
    named = [found.split("::") for found in re.findall(r"`(tests/[\w/]+\.py::\w+)`", promises)]
    assert len(named) == promises.count("::")
    missing = [(path, name) for path, name in named if f"def {name}(" not in (BASE_DIR / path).read_text()]
    assert missing == []
