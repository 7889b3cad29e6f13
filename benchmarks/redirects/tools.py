"""Clients as commands: each prints the status and the length of its answer, or `error` and the reason."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DIRECTORY = Path(os.environ.get("REDIRECT_CLIENTS", "/tmp/tarry-clients"))
"""Where install.sh put them."""

SOURCES = Path(__file__).parent / "sources"


WGET = """
lines=$(wget --server-response --output-document=/dev/null "$0" 2>&1 | grep -o '^  HTTP/[0-9.]* [0-9]*')
echo "${lines##* } ?"
"""
"""It prints a line for each answer; the last one counts."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A client. The address is added to its command. `version` is a command that prints it."""

    name: str
    command: tuple[str, ...]
    version: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_here(self) -> bool:
        parts = [part for part in self.command if part.startswith(f"{DIRECTORY}/") and ":" not in part]
        return shutil.which(self.command[0]) is not None and all(Path(part).exists() for part in parts)

    def version_text(self) -> str:
        """The first number like a version in the command's output."""
        done = subprocess.run(
            self.version, capture_output=True, text=True, check=False, env={**os.environ, **self.environment}
        )
        words = (done.stdout + done.stderr).replace('"', " ").replace("/", " ").split()
        numbers = [word.strip("v,;()").removeprefix("go") for word in words]
        return next((number for number in numbers if number[:1].isdigit() and "." in number), "unknown")


def tools() -> list[Tool]:
    """All known clients, installed or not."""
    return [*_commands(), *_python(), *_node(), *_perl(), *_compiled()]


def _commands() -> list[Tool]:
    curl = (
        "curl",
        "--silent",
        "--location",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code} %{size_download}\\n",
    )
    wget = ("sh", "-c", WGET)
    return [
        Tool("curl -L", curl, ("curl", "--version")),
        Tool("wget", wget, ("wget", "--version")),
    ]


def _python() -> list[Tool]:
    python, script = str(DIRECTORY / "venv/bin/python"), str(SOURCES / "get.py")

    def tool(name: str, client: str, package: str) -> Tool:
        source = f"import importlib.metadata as m; print(m.version({package!r}))"
        return Tool(name, (python, script, client), (python, "-c", source))

    return [
        Tool("Python urllib", (python, script, "urllib"), (python, "--version")),
        tool("requests", "requests", "requests"),
        tool("urllib3 PoolManager", "urllib3", "urllib3"),
        tool("urllib3 HTTPConnectionPool", "urllib3-pool", "urllib3"),
        tool("aiohttp", "aiohttp", "aiohttp"),
        tool("httpx (following)", "httpx", "httpx"),
    ]


def _node() -> list[Tool]:
    script = str(DIRECTORY / "get.mjs")

    def tool(name: str, client: str) -> Tool:
        package = DIRECTORY / "node_modules" / client / "package.json"
        source = f"console.log(JSON.parse(require('fs').readFileSync('{package}')).version)"
        return Tool(name, ("node", script, client), ("node", "-e", source))

    fetch = Tool("Node fetch", ("node", script, "fetch"), ("node", "--version"))
    return [fetch, tool("got", "got"), tool("superagent", "superagent"), tool("axios", "axios")]


def _perl() -> list[Tool]:
    script = str(SOURCES / "get.pl")
    own = DIRECTORY / "root/usr"
    libraries = {"PERL5LIB": f"{own}/share/perl5:{own}/lib/x86_64-linux-gnu/perl5/5.36"}
    lwp = f"{own}/share/perl5/LWP.pm"
    return [
        Tool("HTTP::Tiny", ("perl", script, "tiny"), ("perl", "-MHTTP::Tiny", "-e", "print HTTP::Tiny->VERSION")),
        Tool(
            "LWP::UserAgent",
            ("sh", "-c", f'test -e {lwp} && exec perl "$0" lwp "$1"', script),
            ("perl", "-MLWP", "-e", "print LWP->VERSION"),
            libraries,
        ),
    ]


def _compiled() -> list[Tool]:
    jars = [f"root/usr/share/java/{name}.jar" for name in ("httpclient5", "httpcore5", "httpcore5-h2", "slf4j-api")]
    path = ":".join([str(DIRECTORY / "classes"), *(str(DIRECTORY / jar) for jar in jars)])
    java = ("java", "-XX:TieredStopAtLevel=1", "-cp")
    go = str(DIRECTORY / "root/usr/lib/go-1.19/bin/go")
    return [
        Tool("Go net/http", (str(DIRECTORY / "go-get"),), (go, "version"), {"GOROOT": str(Path(go).parent.parent)}),
        Tool("Java HttpClient", (*java, str(DIRECTORY / "classes"), "Get"), ("java", "-version")),
        Tool(
            "Apache HttpClient",
            (*java, path, "GetApache"),
            ("sh", "-c", f"ls {DIRECTORY}/root/usr/share/java | sed -n 's/^httpclient5-\\([0-9.]*\\).jar/\\1/p'"),
        ),
    ]
