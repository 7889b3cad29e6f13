"""DNS with the answers that a test wants, and other answers the next time."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence

from aiohttp.abc import AbstractResolver, ResolveResult

from resources.fetch.http import guard


class Names(AbstractResolver):
    """Answers by host: the first answer at the first question, the next at the next, the last for ever.

    A host that is unknown does not exist; one without answers is silent.
    """

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {host.replace("_", "."): list(each) for host, each in answers.items()}
        self.questions: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.questions.append(host)
        if host not in self._answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self._answers[host]
        if not answers:
            await asyncio.Event().wait()
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [guard.build_resolve_result(host, address, port, _family(address)) for address in answer]

    async def close(self) -> None:
        return


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
