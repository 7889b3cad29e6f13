"""Scans that callbacks ask for are noted, and do not begin."""

import pytest

from feeds.callbacks import debouncing


@pytest.fixture(autouse=True)
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which scans were asked for."""
    asked: list[str] = []
    monkeypatch.setattr(debouncing.SCAN, "soon", lambda: asked.append("soon"))
    monkeypatch.setattr(debouncing.LATER, "soon", lambda: asked.append("later"))
    return asked
