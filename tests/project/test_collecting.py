"""Static files are collected once for the same sources."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from pytest_django import Settings

from project import collecting


class Site:
    """A site with one static file, and how often it collected."""

    def __init__(self, root: Path) -> None:
        self.source, self.target, self.note = root / "source" / "page.css", root / "static", root / "note"
        self.source.parent.mkdir()
        self.source.write_text("a {}")
        self.collected = 0

    def start(self) -> None:
        collecting.collect(self.note)

    def served(self) -> set[str]:
        return {path.read_text() for path in self.target.glob("page.*.css")}


@pytest.fixture
def site(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATICFILES_DIRS = [str(made.source.parent)]
    settings.STATIC_ROOT = str(made.target)
    backend = {"BACKEND": "project.static_files.HashedStaticFiles"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": backend}

    def counted(name: str, **options: Any) -> None:
        made.collected += 1
        call_command(name, **options)

    monkeypatch.setattr(collecting, "call_command", counted)
    return made


def test_a_second_start_collects_nothing(site: Site) -> None:
    site.start()
    site.start()
    assert site.served() == {"a {}"}
    assert site.collected == 1


def test_what_has_changed_is_there_after_the_next_start(site: Site) -> None:
    site.start()
    site.source.write_text("a { color: red }")
    site.start()
    assert site.served() == {"a {}", "a { color: red }"}


def test_a_file_that_came_is_there_after_the_next_start(site: Site) -> None:
    site.start()
    site.source.with_name("more.css").write_text("b {}")
    site.start()
    assert list(site.target.glob("more.*.css"))


def test_a_start_that_was_killed_while_it_collected_is_made_up_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.start()
    began = site.source.stat()
    site.source.write_text("b {}")
    with monkeypatch.context() as killed:
        killed.setattr(collecting, "call_command", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            site.start()
    site.source.write_text("a {}")
    os.utime(site.source, ns=(began.st_atime_ns, began.st_mtime_ns))
    site.start()
    assert site.collected == 2


def test_a_folder_that_was_emptied_is_filled_again(site: Site) -> None:
    site.start()
    for path in site.target.iterdir():
        path.unlink()
    site.start()
    assert site.served() == {"a {}"}
