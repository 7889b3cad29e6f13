"""`python -m benchmarks.feeds.pinger HOST`: pings a site as clouds do, in a process of its own.

Each line of its input is JSON: URLs of feeds by their tokens, how many pings in all, over how many connections, spread
over how many seconds. Each line of its output has the moment of the first, in Unix seconds, how often there was which
status, and the seconds that the answers took: median, p99.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from urllib.parse import urlencode

import uvloop

from ..figures import median, percentile

FORM = "application/x-www-form-urlencoded"
HEAD = f"POST /rsscloud/{{}} HTTP/1.1\r\nHost: {{}}\r\nContent-Type: {FORM}\r\nContent-Length: {{}}\r\n\r\n"
Answers = list[tuple[float, int]]


async def ping_all(host: str, urls: dict[str, str], pings: int, connections: int, spread: float) -> dict[str, object]:
    requests = [_request(host, token, url) for token, url in islice(cycle(urls.items()), pings)]
    name, _, port = host.partition(":")
    streams = await asyncio.gather(*(asyncio.open_connection(name, int(port)) for _ in range(connections)))
    began, answers = time.time(), Answers()
    waiting = iter([(began + spread * place / pings, request) for place, request in enumerate(requests)])
    await asyncio.gather(*(_ping(reader, writer, waiting, answers) for reader, writer in streams))
    for _, writer in streams:
        writer.close()
    seconds = [each for each, _ in answers]
    statuses = Counter(str(status) for _, status in answers)
    return {"began": began, "statuses": statuses, "seconds": [median(seconds), percentile(seconds, 0.99)]}


async def _ping(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, waiting: Iterator[tuple[float, bytes]], answers: Answers
) -> None:
    for due, request in waiting:
        await asyncio.sleep(max(0.0, due - time.time()))
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.split(b":")[1]))
        answers.append((time.perf_counter() - began, int(head[9:12])))


def _request(host: str, token: str, url: str) -> bytes:
    body = urlencode({"url": url})
    return (HEAD.format(token, host, len(body)) + body).encode()


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(uvloop.run(ping_all(sys.argv[1], *asked))), flush=True)
