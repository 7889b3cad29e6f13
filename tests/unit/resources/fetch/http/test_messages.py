"""Bodies as values."""

from hashlib import sha256
from unittest.mock import Mock

import pytest

from resources.fetch.http import messages
from resources.fetch.http.messages import Body


def test_the_digest_of_data_is_computed_once_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    digesting = Mock(side_effect=sha256)
    monkeypatch.setattr(messages, "sha256", digesting)
    body = Body(4, data=b"text")
    digesting.assert_not_called()
    assert body.digest == body.digest == sha256(b"text").hexdigest()
    digesting.assert_called_once_with(b"text")


def test_a_known_digest_is_believed() -> None:
    assert Body(4, "known", data=b"text").digest == "known"
