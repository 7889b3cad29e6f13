"""Flask-WebSub's hub, for flows: in threads, on loopback. Its tasks run in a pool of threads in place of Celery."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import requests
from flask import Flask
from flask_websub.hub import Hub, SQLite3HubStorage
from werkzeug.serving import make_server

THREADS = 8


@dataclass(frozen=True, slots=True)
class FlaskHub:
    """`callbacks` are those that are subscribed to a topic, with their secrets."""

    url: str
    storage: SQLite3HubStorage

    def callbacks(self, topic: str) -> dict[str, str]:
        return dict(map(tuple, self.storage.get_callbacks(topic)))

    def ask(self, mode: str, topic: str, **more: str) -> None:
        """The requests of subscribers and publishers."""
        form = {"mode": mode, "topic": topic, **more}
        answer = requests.post(self.url, data={f"hub.{name}": value for name, value in form.items()}, timeout=10)
        assert answer.status_code == 202, answer.text


@contextmanager
def running(directory: Path, address: str = "127.0.0.1") -> Iterator[FlaskHub]:
    storage = SQLite3HubStorage(str(directory / "hub.sqlite3"))
    with ThreadPoolExecutor(THREADS) as pool:
        hub = Hub(storage, _Tasks(pool), REQUEST_TIMEOUT=10)
        app = Flask(__name__)
        app.config["PUBLISH_SUPPORTED"] = True
        app.register_blueprint(hub.build_blueprint(url_prefix="/hub"))
        server = make_server(address, 0, app, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield FlaskHub(f"http://{address}:{server.server_port}/hub", storage)
        finally:
            server.shutdown()


class _Tasks:
    """The part of Celery that the hub uses: nothing is tried again."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def task(self, **options: Any) -> Callable[[Callable[..., Any]], SimpleNamespace]:
        def made(function: Callable[..., Any]) -> SimpleNamespace:
            bound = (SimpleNamespace(request=SimpleNamespace(retries=0), retry=_give_up),) if "bind" in options else ()
            return SimpleNamespace(delay=lambda *given: self._pool.submit(function, *bound, *given))

        return made


def _give_up(**_: Any) -> None:
    raise RuntimeError("the callback did not take it")
