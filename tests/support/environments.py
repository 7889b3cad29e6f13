"""Environments with chosen packages only: the wheel of this checkout, and the distributions that something needs.

The distributions are those of the running environment, linked: nothing is downloaded, and what is not asked for,
this checkout included, cannot be imported.
"""

import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

from project.paths import BASE_DIR

APPS = ("retry", "resources", "feeds")


def build_wheel(directory: Path) -> Path:
    """Builds the wheel of a copy of this checkout, which stays as it is. Returns its path."""
    source = directory / "source"
    for app in APPS:
        shutil.copytree(BASE_DIR / app, source / app, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(BASE_DIR / name, source)
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run([sys.executable, "-c", build], cwd=source, stdout=subprocess.DEVNULL, check=True)
    [wheel] = directory.glob("*.whl")
    return wheel


def make_environment(directory: Path, requirements: Iterable[str], wheel: Path | None = None) -> Path:
    """Makes a virtual environment of the requirements, all that they require, and the wheel. Returns its Python."""
    venv.create(directory, symlinks=True)
    python = directory / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": str(directory)}))
    for one in _required_distributions(requirements):
        _link_files(one, packages)
        _write_scripts(one, python)
    if wheel:  # of Python alone, without scripts: to install it is to unpack it
        with ZipFile(wheel) as archive:
            archive.extractall(packages)
    return python


def _required_distributions(requirements: Iterable[str]) -> list[Distribution]:
    seen, open_ones = set[tuple[str, str]](), _names_and_extras(requirements, "")
    while open_ones:
        name, extra = one = open_ones.pop()
        if one not in seen:
            seen.add(one)
            open_ones += _names_and_extras(distribution(name).requires or (), extra)
    return [distribution(name) for name in {name for name, _ in seen}]


def _names_and_extras(requirements: Iterable[str], extra: str) -> list[tuple[str, str]]:
    """Returns the names that apply here and with the extra, once without and once with each of their own extras."""
    needed = [Requirement(text) for text in requirements]
    applying = [one for one in needed if not one.marker or one.marker.evaluate({"extra": extra})]
    return [(one.name, own) for one in applying for own in ("", *one.extras)]


def _link_files(one: Distribution, packages: Path) -> None:
    for name in {file.parts[0] for file in one.files or () if file.parts[0] not in {"..", "__pycache__"}}:
        if not (packages / name).exists():
            (packages / name).symlink_to(Path(str(one.locate_file(name))))


def _write_scripts(one: Distribution, python: Path) -> None:
    for script in one.entry_points.select(group="console_scripts"):
        path = python.with_name(script.name)
        path.write_text(
            f"#!{python}\nimport sys\nfrom {script.module} import {script.attr}\nsys.exit({script.attr}())\n"
        )
        path.chmod(0o755)
