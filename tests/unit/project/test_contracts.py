"""The docstrings of modules and packages agree with the contracts of import-linter."""

import re
import tomllib
from typing import Any

import pytest

from project.paths import BASE_DIR

Contract = dict[str, Any]

CONTRACTS: list[Contract] = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
INTERFACES = {
    contract["name"].removeprefix("Public interface of "): contract
    for contract in CONTRACTS
    if contract["type"] == "protected"
}


def read_docstrings() -> dict[str, str]:
    files = [path for app in ("project", "retry", "resources", "feeds") for path in (BASE_DIR / app).rglob("*.py")]
    names = {path: path.relative_to(BASE_DIR).with_suffix("").as_posix().replace("/", ".") for path in files}
    found = {path: re.match(r'"""(.*?)"""', path.read_text(), re.DOTALL) for path in files}
    return {name.removesuffix(".__init__"): text[1] if (text := found[path]) else "" for path, name in names.items()}


DOCSTRINGS = read_docstrings()


def says_pure(name: str) -> bool:
    """Tells whether the docstring of the module, or of a package around it, says PURE."""
    parts = name.split(".")
    return any("PURE" in DOCSTRINGS[".".join(parts[:length])] for length in range(1, len(parts) + 1))


def documented_modules(package: str) -> set[str]:
    """The modules of the package that its docstring names after `Public:`."""
    _, _, public = DOCSTRINGS[package].partition("Public:")
    listed = re.findall(r"`([a-z_]+)[a-zA-Z_.]*`", public.partition("\n\n")[0])
    return {f"{package}.{module}" for module in listed if f"{package}.{module}" in DOCSTRINGS}


def contract_modules(contract: Contract) -> set[str]:
    return {entry.partition(" -> ")[2] for entry in contract.get("ignore_imports", ())}


def test_modules_that_say_they_are_pure_are_those_of_the_contract() -> None:
    [contract] = [contract for contract in CONTRACTS if contract["name"].startswith("PURE")]
    held = {
        name for name in DOCSTRINGS if any(f"{name}.".startswith(f"{pure}.") for pure in contract["source_modules"])
    }
    assert {name for name in DOCSTRINGS if says_pure(name)} == held


@pytest.mark.parametrize("package", INTERFACES)
def test_a_package_documents_the_modules_that_others_import(package: str) -> None:
    assert documented_modules(package) == contract_modules(INTERFACES[package])


def test_every_package_with_modules_has_an_interface() -> None:
    packages = {
        name.rpartition(".")[0] for name in DOCSTRINGS if not re.search(r"\.(migrations|commands|templatetags)\b", name)
    }
    assert packages - {"", "project", "feeds.management"} <= set(INTERFACES)
