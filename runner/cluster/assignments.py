"""The pending cases of a plan, and the machine that each of them goes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from compile_hud.runner.planning.plan import PlannedCase

# A case that killed three machines would kill the fourth as well.
MAX_ASSIGNMENTS = 3


class CaseQueue:
    """The pending cases in plan order.

    `homes` maps the key of a case to the machine that measured it last. Series are longest when a
    case stays on its machine. A machine takes its own cases first, then cases without a home among
    the connected `machines`, then cases of others: no machine idles.
    """

    def __init__(self, plan: Sequence[PlannedCase], *, homes: Mapping[str, str]) -> None:
        self._waiting = list(plan)
        self._homes = homes
        self._num_failures = Counter[str]()

    def __bool__(self) -> bool:
        """Return whether a case is pending."""
        return bool(self._waiting)

    def take(self, machine: str, *, machines: Collection[str]) -> PlannedCase | None:
        """Return a case for `machine`, None if no case is pending."""

        def distance(index: int) -> int:
            home = self._homes.get(self._waiting[index].case.key, "")
            return 0 if home == machine else 2 if home in machines else 1

        if not self._waiting:
            return None
        return self._waiting.pop(min(range(len(self._waiting)), key=distance))

    def put_back(self, planned: PlannedCase) -> None:
        """Return a case that its machine did not start: it is next, since it waited longest."""
        self._waiting.insert(0, planned)

    def retry(self, planned: PlannedCase) -> bool:
        """Return a case whose machine failed, unless it was assigned MAX_ASSIGNMENTS times."""
        self._num_failures[planned.case.key] += 1
        if self._num_failures[planned.case.key] >= MAX_ASSIGNMENTS:
            return False
        self.put_back(planned)
        return True

    def take_all(self) -> Sequence[PlannedCase]:
        """Remove and return the pending cases."""
        waiting, self._waiting = self._waiting, []
        return waiting
