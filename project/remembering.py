"""What the running site was told, so that management commands in another terminal mean the same site."""

import json
from collections.abc import Container, Mapping
from pathlib import Path

# Settings that are no attribute of Django's settings by the same name.
_BESIDES = frozenset({"DATABASE_URL", "STORAGE_URL", "RUNTIME_DIR", "SECRET_KEY_FILE", "LOG_LEVEL", "HSTS_SECONDS"})
# Who keeps keys out of files has a reason; a directory may be moved; another server on this data waits by itself.
_NEVER = frozenset({"SECRET_KEY", "SECRET_KEY_FALLBACKS", "DATA_DIR", "RETRY_INSTANCE", "RETRY_FRONT"})


def remembered(path: Path) -> dict[str, str]:
    """The environment of the last run on this data; empty when there was none."""
    try:
        return {str(name): str(value) for name, value in json.loads(path.read_text()).items()}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}


def remember(path: Path, environment: Mapping[str, str], names: Container[str]) -> None:
    """Notes those of the environment's variables that are settings. Keys are left out."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _NEVER and (name in _BESIDES or (name.isupper() and name in names))
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
