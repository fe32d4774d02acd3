"""How much a search may try, by the size of the audit's budget alone: two audits with the same seed and budget try the same."""

from dataclasses import dataclass

from sandlot.audit.case import Case

_USUAL_S = 60.0
_A_TASK, _SANDBOXED = 40, 16


@dataclass(frozen=True, slots=True)
class SearchDepth:
    """The size of a search, as a multiple of the usual one."""

    factor: float = 1.0

    def tasks(self, usual: int) -> int:
        """How many tasks are searched."""
        return max(2, min(4 * usual, round(usual * self.factor)))

    def rounds(self, usual: int) -> int:
        """How often an attacker proposes."""
        return max(1, round(usual * self.factor))

    def trials_a_task(self, *, sandboxed: bool) -> int:
        """How many plays are tried on each task before any are combined."""
        return max(8, round((_SANDBOXED if sandboxed else _A_TASK) * self.factor))


def depth_of(case: Case) -> SearchDepth:
    """The depth of an audit's searches: with a budget of 60 s the usual one."""
    return SearchDepth() if case.budget_s is None else SearchDepth(min(8.0, max(0.25, case.budget_s / _USUAL_S)))
