"""Collects the static files that nginx serves, anew only where their sources have changed. Serves none."""

from hashlib import sha256
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.contrib.staticfiles.storage import ManifestFilesMixin
from django.core.management import call_command


def collect(note: Path) -> None:
    """Makes STATIC_ROOT what the sources are, unless it is: `note` says of which it was made.

    Killed half-way it leaves no note: the next start collects all of it.
    """
    found = sources()
    manifest = Path(settings.STATIC_ROOT) / ManifestFilesMixin.manifest_name
    if manifest.is_file() and note.is_file() and note.read_text() == found:
        return
    note.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, verbosity=0)
    note.write_text(found)


def sources() -> str:
    """A digest of which files there are to collect, of their sizes and times, and of how they are named."""
    digest = sha256(settings.STORAGES["staticfiles"]["BACKEND"].encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            state = Path(storage.path(name)).stat()
            digest.update(f"\0{storage.path(name)}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return digest.hexdigest()
