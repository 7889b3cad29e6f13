"""The wheel holds the apps with all that they read at run time, and needs what its metadata name."""

import os
import shutil
import subprocess
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from project.paths import BASE_DIR

from ...support.environments import APPS, build_wheel, make_environment

_IMPORT_ALL = """
import importlib, pkgutil, sys
import django
django.setup()
for app in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(app).__path__, f"{app}."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            print(module.name, "lacks", error.name)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_every_file_of_the_apps_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path for app in APPS for path in (BASE_DIR / app).rglob("*") if path.is_file()}
    assert held == {str(path.relative_to(BASE_DIR)) for path in files if "__pycache__" not in path.parts}


def test_storages_and_databases_of_some_are_extras(metadata: Message) -> None:
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    extras = {one.name: str(one.marker) for one in needed if one.marker and "extra" in str(one.marker)}
    assert (extras["psycopg"], extras["django-storages"]) == ('extra == "postgres"', 'extra == "s3"')
    assert set(metadata.get_all("Provides-Extra", [])) == {"dev", "postgres", "s3"}


def test_only_storage_in_a_bucket_lacks_something_without_the_extras(wheel: Path, tmp_path: Path) -> None:
    shutil.copytree(BASE_DIR / "project", tmp_path / "project")  # settings that name all apps
    needed = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]["dependencies"]
    python = make_environment(tmp_path / "venv", needed, wheel)
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "RUNTIME_DIR": str(tmp_path)}
    environment |= {"DJANGO_SETTINGS_MODULE": "project.settings", "DEBUG": "1", "LOG_LEVEL": "CRITICAL"}
    environment["TARRY_INSTANCE"] = "main"
    command = [str(python), "-c", _IMPORT_ALL, *APPS]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "resources.bucket lacks boto3\n"), done.stderr
