"""Management commands of a stack, each in a fork of one process that has loaded the site: `-m` with a socket's path.

A request is a JSON list of the command's arguments, ended by the client's half of the connection; the answer is a
JSON object with `status`, `stdout` and `stderr`.
"""

import io
import json
import os
import signal
import socket
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import NoReturn, TypedDict

import django


class Ended(TypedDict):
    """A command that has ended: its exit status and what it printed."""

    status: int
    stdout: str
    stderr: str


def run_command(path: str, arguments: list[str]) -> Ended:
    """Runs a command by the server that listens at that path."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(json.dumps(arguments).encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            ended: Ended = json.load(answer)
            return ended


def serve_commands(path: str) -> NoReturn:
    """Serves until it is killed; listens from when the path is there. A command begins without any connection."""
    django.setup()
    from django.urls import get_resolver  # noqa: PLC0415  needs the settings

    _ = get_resolver().url_patterns
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.new")
        listener.listen()
        os.rename(f"{path}.new", path)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # commands wait for their own children
    with connection.makefile("rb") as request:
        arguments = json.load(request)
    connection.sendall(json.dumps(_execute(arguments)).encode())
    os._exit(0)


def _execute(arguments: list[str]) -> Ended:
    from django.core.management import execute_from_command_line  # noqa: PLC0415  needs the settings

    status = 0
    with redirect_stdout(io.StringIO()) as stdout, redirect_stderr(io.StringIO()) as stderr:
        try:
            execute_from_command_line(["manage.py", *arguments])
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:  # noqa: BLE001  as the interpreter ends
            traceback.print_exc()
            status = 1
    return Ended(status=status, stdout=stdout.getvalue(), stderr=stderr.getvalue())


if __name__ == "__main__":
    serve_commands(sys.argv[1])
