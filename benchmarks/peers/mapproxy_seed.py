"""MapProxy's seeding tool, which fills its cache from a source that paints as our painters do."""

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from resources.tiles.render.painter import AnyScene

from . import mapproxy

SEED_SECONDS = 300


def seed(scene: AnyScene, box: Sequence[float], zooms: range, side: int) -> tuple[int, float]:
    """The number of tiles it has kept of a box (west, south, east, north in degrees), and the CPU time of that.

    That is its own, and the source's, in seconds. Raises MissingError.
    """
    program = mapproxy.installed("mapproxy-seed")
    with tempfile.TemporaryDirectory() as name, mapproxy.picturing(scene) as source:
        folder = Path(name)
        proxy, task = folder / "mapproxy.yaml", folder / "seed.yaml"
        proxy.write_text(json.dumps(mapproxy.configuration(folder, source, side)))  # JSON is YAML
        task.write_text(json.dumps(_task(box, zooms)))
        began = _cpu_seconds()
        command = [str(program), "--proxy-conf", str(proxy), "--seed-conf", str(task), "--concurrency", "1"]
        subprocess.run(command, check=True, timeout=SEED_SECONDS, capture_output=True)
        took = _cpu_seconds() - began
        return sum(1 for _ in (folder / "cache").rglob("*.png")), took


def _task(box: Sequence[float], zooms: range) -> dict[str, object]:
    wanted = {"caches": ["kept"], "coverages": ["box"], "levels": {"from": zooms[0], "to": zooms[-1]}}
    return {"seeds": {"all": wanted}, "coverages": {"box": {"bbox": list(box), "srs": "EPSG:4326"}}}


def _cpu_seconds() -> float:
    """CPU time of this process, which runs the source, and of those that have ended below it."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime
