"""What docstrings say of modules is what the contracts hold."""

import ast
import tomllib
from pathlib import Path

from project.paths import BASE_DIR

CONTRACTS = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def pure_by_contract() -> set[str]:
    [contract] = [contract for contract in CONTRACTS if contract["name"].startswith("Pure modules")]
    return set(contract["source_modules"])


def modules() -> dict[str, str]:
    """The docstring of each module by its name."""
    files = [path for app in ("project", "retry", "resources", "feeds") for path in (BASE_DIR / app).rglob("*.py")]
    return {_name(path): ast.get_docstring(ast.parse(path.read_text())) or "" for path in files}


def _name(path: Path) -> str:
    parts = path.relative_to(BASE_DIR).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_modules_that_say_they_are_pure_are_those_of_the_contract() -> None:
    contract = pure_by_contract()
    held = {name for name in modules() if any(f"{name}.".startswith(f"{pure}.") for pure in contract)}
    assert {name for name, text in modules().items() if "PURE" in text} == held
