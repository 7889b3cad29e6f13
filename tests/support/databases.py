"""A database of its own for each stack, where the tests run on PostgreSQL: sites must not share one by chance."""

from uuid import uuid4

import psycopg


class OwnDatabase:
    """A new database beside the one that `url` names, whose last part is its name. `url` leads to it."""

    def __init__(self, url: str) -> None:
        self._given = url
        self._name = f"tarry_{uuid4().hex}"
        self.url = f"{url.rpartition('/')[0]}/{self._name}"
        self._execute(f'CREATE DATABASE "{self._name}"')

    def drop(self) -> None:
        """Ends its remaining connections, too."""
        self._execute(f'DROP DATABASE IF EXISTS "{self._name}" WITH (FORCE)')

    def _execute(self, statement: str) -> None:
        directory, _, name = self._given.partition("@/")[2].rpartition("/")
        with psycopg.connect(host=f"/{directory}", user="tarry", dbname=name, autocommit=True) as connection:
            connection.execute(statement.encode())
