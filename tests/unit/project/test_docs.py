"""The documentation: what it points to is there, and it is as short as it promises."""

import ast
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent

import pytest
from django.core.management import get_commands

from project.paths import BASE_DIR

from ...support.documentation import code_block, code_blocks

PAGES = sorted([*BASE_DIR.glob("*.md"), *(BASE_DIR / "docs").rglob("*.md"), BASE_DIR / "nginx" / "README.md"])
PRODUCT = ("retry", "resources", "feeds", "project")
ARCHITECTURE = BASE_DIR / "docs" / "ARCHITECTURE.md"

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"manage\.py (\w+)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PATH = re.compile(r"`(?!benchmarks/results)((?:retry|resources|feeds|project|tests|benchmarks|nginx|docs)/[\w./-]*)`")
_TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")


def links(page: Path) -> list[str]:
    found = _LINK.findall(page.read_text())
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def anchors(page: Path) -> set[str]:
    headings = _HEADING.findall(page.read_text())
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named(page: Path) -> str:
    return str(page.relative_to(BASE_DIR))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_command_path_and_test_that_is_named_exists(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
    text = page.read_text()
    assert set(_COMMAND.findall(text)) <= set(get_commands()) | {"runserver"}
    assert [path for path in _PATH.findall(text) if not (BASE_DIR / path).exists()] == []
    tests = _TEST.findall(text)
    assert [one for one in tests if f"def {one[1]}(" not in (BASE_DIR / one[0]).read_text()] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_code_in_python_json_and_shell_is_well_formed(page: Path) -> None:
    for language, code in code_blocks(named(page)):
        if language == "python":
            compile(f"async def block():\n{indent(code, '  ')}", named(page), "exec", ast.PyCF_ONLY_AST)
        elif language == "json":
            assert read_all(code), code
        elif language == "sh":
            subprocess.run(["bash", "-n"], input=code, text=True, check=True, timeout=10)


def read_all(text: str) -> list[object]:
    """The JSON values of a text, one after the other."""
    found: list[object] = []
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


OF_PAGES = ("README.md", "CONTRIBUTING.md", *(f"docs/{page.name}" for page in (BASE_DIR / "docs").glob("*.md")))
NOT_CODE = {"json", "text"}
"""The languages of data, and of pictures and output."""

MAKE_BLOCKS = [
    code_block("README.md", "", "make run"),
    code_block("README.md", "", "make test"),
    code_block("CONTRIBUTING.md", "", "make check"),
    code_block("CONTRIBUTING.md", "", "make test-cluster"),
    code_block("docs/benchmarks.md", "", "make bench"),
    code_block("docs/reliability.md", "", "make chaos"),
]
"""Blocks that are not carried out: they install packages into this checkout, run all tests, or take very long."""


@pytest.mark.parametrize("block", MAKE_BLOCKS, ids=lambda block: block.splitlines()[0].partition("#")[0].strip())
def test_targets_of_make_and_files_of_tests_exist(block: str) -> None:
    for line in block.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "make":
            subprocess.run([program, "--dry-run", *arguments], cwd=BASE_DIR, stdout=subprocess.DEVNULL, check=True)
        elif arguments[:2] == ["-m", "pytest"]:
            assert (BASE_DIR / arguments[2]).exists(), line
        else:
            assert arguments[0] == "-m"
            assert find_spec(arguments[1]), line


def read_texts(module: ast.Module) -> dict[str, str]:
    """The texts that a module has a name for, by that name."""
    pairs = list[tuple[ast.expr, ast.expr]]()
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs += zip(names, values, strict=True)
            case ast.Assign(targets=[name], value=value):
                pairs.append((name, value))
    constants = [(ast.unparse(name), each.value) for name, each in pairs if isinstance(each, ast.Constant)]
    return {name: text for name, text in constants if isinstance(text, str)}


def read_named_blocks(path: Path) -> Iterator[tuple[str, str]]:
    """Yields page and text of the blocks that a file of tests has from `code_block` or `commands`, by fixed words."""
    module = ast.parse(path.read_text())
    texts = read_texts(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"code_block", "commands"}:
            words = [texts.get(ast.unparse(one), getattr(one, "value", None)) for one in node.args]
            page, language, part = words if len(words) == 3 else ["docs/operations.md", "", *words]
            if isinstance(page, str) and isinstance(language, str) and isinstance(part, str):
                yield page, code_block(page, language, part)


def test_every_block_of_code_has_a_test() -> None:
    blocks = {(page, code) for page in OF_PAGES for language, code in code_blocks(page) if language not in NOT_CODE}
    named = {block for path in (BASE_DIR / "tests").rglob("*.py") for block in read_named_blocks(path)}
    assert sorted(blocks - named) == []


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(ARCHITECTURE.read_text().splitlines()) <= 150


def packages() -> list[str]:
    """All packages of the product with code of their own. Commands and template tags are named with their package."""
    found = [path.parent for name in PRODUCT for path in (BASE_DIR / name).rglob("__init__.py")]
    names = {str(path.relative_to(BASE_DIR)) for path in found}
    return sorted(name for name in names if Path(name).name not in {"commands", "migrations", "templatetags"})


def test_the_architecture_has_a_line_for_every_package_and_for_no_other() -> None:
    section = ARCHITECTURE.read_text().split("\n## Packages")[1].split("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`([^`]+)`", row)) == packages()


def test_every_logger_of_the_site_is_in_the_table_of_operations() -> None:
    files = [path for package in PRODUCT for path in (BASE_DIR / package).rglob("*.py")]
    used = {name for path in files for name in re.findall(r"getLogger\(\"(tarry\.\w+)\"\)", path.read_text())}
    table = (BASE_DIR / "docs" / "operations.md").read_text().split("| logger | tells |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `(tarry\.\w+)`", table, re.MULTILINE)) == sorted(used)


def test_each_promise_of_security_is_shown_by_tests_that_exist() -> None:
    page = (BASE_DIR / "docs" / "security.md").read_text()
    promises = page.split("## Promises")[1].split("\n## ")[0]
    rows = [row for row in promises.splitlines() if row.startswith("| ") and not row.startswith("| promise")]
    assert [row for row in rows if "::" not in row] == []
    assert len(_TEST.findall(promises)) == promises.count("::")
