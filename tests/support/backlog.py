"""A long backlog: stale contents by the thousand, whose refreshes wait in a lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from retry import contents
from retry.contents import Prepared

from .claim_calls import queued_key
from .crowd import Crowd
from .stack import Stack, eventually

AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Backlog:
    """Slow contents that are stale; a request for one queues its refresh in `lane`."""

    stack: Stack
    lane: str
    name: str
    size: int
    query: str = ""

    @property
    def names(self) -> list[str]:
        return [f"{self.name}{number}" for number in range(self.size)]

    def address(self, name: str) -> str:
        return f"/slow/{name}?stale=3600&later={self.lane}{self.query}"

    def hold(self, crowd: Crowd) -> None:
        """Has the lane's worker begin work that goes on until `let_go`."""
        held = f"{self.name}held"
        self._lay([held])
        crowd.visit(f"{self.address(held)}&gated=1")
        self.stack.wait_for(held)

    def let_go(self) -> None:
        self.stack.open_gate(f"{self.name}held")

    def queue(self, crowd: Crowd) -> None:
        """Queues all refreshes behind the held work. All clients are served stale content."""
        self._lay(self.names)
        for start in range(0, self.size, AT_ONCE):
            left = self._ask(crowd, [self.address(name) for name in self.names[start : start + AT_ONCE]])
            assert self._ask(crowd, [f"{address}&again=1" for address in left]) == []
        eventually(lambda: self.waiting() == self.size, 10, "all refreshes wait")

    def _ask(self, crowd: Crowd, addresses: Sequence[str]) -> list[str]:
        """The contents without a queued refresh: the machine stood still, and main served them without `state`."""
        visits = crowd.send(addresses).result(60)
        assert all(visit.status == 200 for visit in visits)
        return [visit.address for visit in visits if "detail=unreachable" in visit.answers[-1].cache_status]

    def waiting(self) -> int:
        """The number of works in the lane."""
        return int(self.stack.state.zcard(queued_key(self.lane)))

    def begun(self, before: float) -> int:
        """The number of refreshes that began before that moment."""
        starts = [event for name in self.names for event in self.stack.events(name) if event["event"] == "start"]
        return sum(start["time"] < before for start in starts)

    def lose(self, name: str) -> None:
        """Takes a stale content away: the next client has to wait for its refresh."""
        self.stack.cache.delete(contents.content_name(f"slow:{name}"))

    def _lay(self, names: Sequence[str]) -> None:
        old = Prepared(b"old", "text/plain", 0, 3600)
        with self.stack.cache.pipeline(transaction=False) as pipeline:
            for name in names:
                call = contents.store_call(f"slow:{name}", old, 1, datetime.now(UTC), 0)
                pipeline.execute_command(*call.by_text())  # type: ignore[no-untyped-call]
            pipeline.execute()


def is_clear(stack: Stack, lanes: Sequence[str]) -> bool:
    """Tells whether no claim, no count and no message is left."""
    left = [stack.state.zcard(name) for name in ("retry:{0}:claims", "retry:{0}:leases", *map(queued_key, lanes))]
    return not any([*left, *(stack.state.llen(lane) for lane in lanes), *stack.state.scan_iter("retry:{0}:claim:*")])
