"""docs/add-your-own.md, “In another Django project”: its steps, done one by one, make a site that defers."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from project.paths import BASE_DIR

from ..support.documentation import code_block
from ..support.environments import build_wheel, make_environment
from ..support.processes import kill_family
from ..support.redis_servers import RedisServer
from ..support.stack import answers, eventually, free_port

pytestmark = pytest.mark.no_database

PAGE = "docs/add-your-own.md"
SHOWN = [
    code_block(PAGE, "python", "# primes/tasks.py"),
    code_block(PAGE, "python", "# primes/views.py"),
    code_block(PAGE, "python", "# mysite/urls.py"),
    code_block(PAGE, "python", "# mysite/settings.py"),
    code_block(PAGE, "python", "# mysite/celery.py"),
    code_block(PAGE, "python", "# mysite/__init__.py"),
]
FILES = {code.split()[1].rstrip(","): f"{code}\n" for code in SHOWN}
ORDINAL, ANSWER = 2000, b"17389\n"
START_SECONDS = 30


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tarry-other-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def address(directory: Path) -> Iterator[str]:
    """A site made as the page says, on a port, with servers and an environment of its own."""
    make_environment(directory / "venv", _listed_requirements(), build_wheel(directory))
    port = free_port()
    stores = [RedisServer(directory / "state.sock"), RedisServer(directory / "cache.sock")]
    for store in stores:
        store.start()
    _make_project(directory, port)
    processes = [_run_commands(directory), _run_nginx(directory, port)]
    site = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: answers(f"{site}/primes/0", 404), START_SECONDS, "the site answers")
        yield site
    finally:
        for process in processes:
            kill_family(process)
        for store in stores:
            store.stop()


def _make_project(directory: Path, port: int) -> None:
    """`django-admin startproject`, and the page's files."""
    command = [f"{directory}/venv/bin/django-admin", "startproject", "mysite", "."]
    subprocess.run(command, cwd=directory, check=True, env=_environment(directory))
    for name, text in FILES.items():
        file = directory / name
        file.parent.mkdir(exist_ok=True)
        started = file.read_text() if file.exists() else ""
        file.write_text(started + _placed(text, directory, port))
    (directory / "primes" / "__init__.py").touch()


def _listed_requirements() -> list[str]:
    """The packages that the page has installed beside the wheel."""
    lines = [shlex.split(line, comments=True) for line in code_block(PAGE, "sh", "pip install").splitlines()]
    return [word for line in lines if "--no-deps" not in line for word in line[2:]]


def _placed(text: str, directory: Path, port: int) -> str:
    """The text with this test's places instead of the page's."""
    return (
        text.replace("redis://127.0.0.1:6379/0", f"unix://{directory}/state.sock")
        .replace("redis://127.0.0.1:6380/0", f"unix://{directory}/cache.sock")
        .replace("CELERY_BROKER_URL = REDIS_URL", f'CELERY_BROKER_URL = "redis+socket://{directory}/state.sock"')
        .replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        .replace("/srv/mysite", str(directory))
    )


def _run_commands(directory: Path) -> "subprocess.Popen[bytes]":
    with (directory / "log").open("ab") as log:
        command = ["setpriv", "--pdeathsig", "KILL", "sh", "-ec", code_block(PAGE, "sh", "celery -A mysite")]
        return subprocess.Popen(command, cwd=directory, env=_environment(directory), stdout=log, stderr=log)


def _run_nginx(directory: Path, port: int) -> "subprocess.Popen[bytes]":
    user = "user root;" if os.getuid() == 0 else ""
    configuration = directory / "nginx.conf"
    site = _placed(code_block(PAGE, "nginx", "retry_after"), directory, port)
    temporary = "".join(
        f"{kind}_temp_path {directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration.write_text(
        f"daemon off; {user} pid {directory}/nginx.pid; error_log {directory}/log;"
        f"events {{}} http {{ access_log off; {temporary}\n{site}\n}}"
    )
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert nginx
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", nginx, "-e", "stderr", "-c", str(configuration)])


def _environment(directory: Path) -> dict[str, str]:
    return {"PATH": f"{directory}/venv/bin:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/")}


def test_the_first_client_is_redirected_until_the_content_is_there(address: str) -> None:
    answer = requests.get(f"{address}/primes/{ORDINAL}", timeout=40)
    assert (answer.status_code, answer.content) == (200, ANSWER)
    assert [hop.status_code for hop in answer.history] == [302, 302]
    assert answer.history[0].headers["Location"].startswith("/retry_after?redirect=/primes/")


def test_the_pages_own_request_is_answered(address: str) -> None:
    command = code_block(PAGE, "", "/primes/5000").replace("http://127.0.0.1:8080", address)
    done = subprocess.run(shlex.split(command), capture_output=True, timeout=40, check=True)
    assert done.stdout == b"48611\n"


def test_the_next_client_gets_it_at_once(address: str) -> None:
    requests.get(f"{address}/primes/{ORDINAL}", timeout=40)
    assert requests.get(f"{address}/primes/{ORDINAL}", timeout=5).history == []


def test_the_apps_own_word_is_what_the_client_is_told(address: str) -> None:
    answer = requests.get(f"{address}/primes/1000000", timeout=40)
    assert answer.status_code == 404
    assert answer.json()["detail"] in FILES["primes/tasks.py"]


def test_another_method_is_refused_as_a_problem(address: str) -> None:
    answer = requests.post(f"{address}/primes/{ORDINAL}", timeout=5)
    assert (answer.status_code, answer.json()["status"]) == (405, 405)


def test_nothing_of_the_checkout_is_on_its_path(directory: Path, address: str) -> None:
    command = [f"{directory}/venv/bin/python", "-c", "import retry, sys; print(retry.__file__, *sys.path)"]
    done = subprocess.run(command, cwd=directory, env=_environment(directory), capture_output=True, check=True)
    assert f"{directory}/venv/lib/".encode() in done.stdout
    assert str(BASE_DIR).encode() not in done.stdout


def test_its_settings_contradict_each_other_nowhere(directory: Path, address: str) -> None:
    command = [f"{directory}/venv/bin/python", "manage.py", "check"]
    done = subprocess.run(
        command, cwd=directory, env=_environment(directory), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "retry." not in done.stderr
