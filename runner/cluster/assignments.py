"""The assignment of cases to machines; each result counts once, even a late one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from compile_hud.runner.planning.plan import PlannedCase

# A case that killed three machines would kill the fourth as well.
MAX_ASSIGNMENTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A case assigned to one machine; `number` counts its assignments so far."""

    planned: PlannedCase
    number: int

    @property
    def key(self) -> str:
        """Return the key of the case."""
        return self.planned.case.key


class CaseQueue:
    """The pending cases of a plan and the assigned ones, with their number of assignments.

    `homes` maps the key of a case to the machine that measured it last. Series are longest when a
    case stays on its machine. A machine takes its own cases first, then cases without a home among
    the connected `machines`, then cases of others: no machine idles.
    """

    def __init__(self, plan: Sequence[PlannedCase], *, homes: Mapping[str, str]) -> None:
        self._waiting = list(plan)
        self._homes = homes
        self._assigned: dict[str, Assignment] = {}
        self._counts: dict[str, int] = {}

    @property
    def waiting(self) -> Sequence[PlannedCase]:
        """Return the unassigned cases in plan order."""
        return tuple(self._waiting)

    def take(self, machine: str, *, machines: Collection[str]) -> Assignment | None:
        """Return a case for `machine`, None if no case is pending."""
        if not self._waiting:
            return None

        def distance(index: int) -> tuple[int, int]:
            home = self._homes.get(self._waiting[index].case.key, "")
            return (0 if home == machine else 2 if home in machines else 1, index)

        index = min(range(len(self._waiting)), key=distance)
        planned = self._waiting.pop(index)
        key = planned.case.key
        self._counts[key] = self._counts.get(key, 0) + 1
        assignment = Assignment(planned=planned, number=self._counts[key])
        self._assigned[key] = assignment
        return assignment

    def accept(self, assignment: Assignment) -> bool:
        """Return whether a result for `assignment` counts: the case was not reassigned."""
        if self._assigned.get(assignment.key) != assignment:
            return False
        del self._assigned[assignment.key]
        return True

    def take_back(self, assignment: Assignment, *, is_counted: bool = True) -> bool:
        """Withdraw a case from a machine; return whether another machine may have it.

        An assignment that the machine did not start does not count. A later result of `assignment`
        is ignored.
        """
        if not self.accept(assignment):
            return True
        if not is_counted:
            self._counts[assignment.key] -= 1
        if self._counts[assignment.key] >= MAX_ASSIGNMENTS:
            return False
        # It has waited longest.
        self._waiting.insert(0, assignment.planned)
        return True

    def drop(self, planned: PlannedCase) -> None:
        """Remove a pending case."""
        self._waiting.remove(planned)
