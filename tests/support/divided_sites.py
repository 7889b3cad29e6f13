"""Machines of one site, each with a directory of its own, started by documented commands. They share the stores."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from .databases import OwnDatabase
from .prepared_data import PREPARED_DATA
from .processes import kill_family
from .site import environment_of
from .stack import ROOT, free_port

END_SECONDS = 60


class Machine:
    """A machine that a block of shell commands runs. The paths are short, for its sockets."""

    def __init__(self, root: Path, block: str, environment: Mapping[str, str]) -> None:
        self.data, self.runtime = root / "data", root / "run"
        self.output = root / "output.log"
        root.mkdir()
        PREPARED_DATA.give(self.data)
        self.environment = {**environment_of(self.data, self.runtime, free_port()), **environment}
        self.base_url = f"http://127.0.0.1:{self.environment['PORT']}"
        self._block = block
        self.start()

    def start(self) -> None:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "bash", "-ec", f"exec env {self._block}"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )

    def shut_down(self) -> None:
        """Ends it as a service manager does. Returns when all has stopped."""
        self.process.terminate()
        self.process.wait(END_SECONDS)

    def crash(self) -> None:
        """Kills everything at once, as if the machine had failed."""
        kill_family(self.process)

    def logs(self) -> str:
        files = [self.output, *sorted((self.data / "logs").glob("*.log"))]
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in files if path.exists())


class Machines:
    """The machines of a site with an empty PostgreSQL database. `shared` is the environment of all."""

    def __init__(self, root: Path, shared: Mapping[str, str], ends: ExitStack) -> None:
        self._root, self._ends = root, ends
        self.shared = dict(shared)
        self.all: dict[str, Machine] = {}

    def run(self, name: str, block: str, **environment: str) -> Machine:
        given = {**self.shared, "MACHINE": name, **environment}
        machine = self.all[name] = Machine(self._root / name, block, given)
        self._ends.callback(machine.crash)
        return machine

    def manage(self, machine: Machine, *arguments: str) -> None:
        """Runs a Python command with the machine's environment, as `-m project.release`."""
        command = [str(ROOT / ".venv" / "bin" / "python"), *arguments]
        subprocess.run(command, cwd=ROOT, env=machine.environment, check=True, capture_output=True, timeout=120)

    def release(self) -> None:
        """Releases the site once, for machines that wait for that (RELEASE=0)."""
        environment = environment_of(self._root / "release", self._root / "r", free_port())
        command = [str(ROOT / ".venv" / "bin" / "python"), "-m", "project.release"]
        given = {**environment, **self.shared}
        subprocess.run(command, cwd=ROOT, env=given, check=True, capture_output=True, timeout=120)
        PREPARED_DATA.take(self._root / "release")

    def logs(self) -> str:
        return "\n".join(machine.logs() for machine in self.all.values())


@contextmanager
def site_of_machines(**shared: str) -> Iterator[Machines]:
    """A site without machines so far. Everything ends with it, and is removed."""
    root = Path(tempfile.mkdtemp(prefix="tarry-m-", dir="/tmp"))
    database = OwnDatabase(os.environ["DATABASE_URL"])
    given = {"DATABASE_URL": database.url, "SECRET_KEY": uuid4().hex, **shared}
    try:
        with ExitStack() as ends:
            yield Machines(root, given, ends)
    finally:
        database.drop()
        shutil.rmtree(root, ignore_errors=True)
