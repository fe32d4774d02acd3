"""Compares what changed in a rollout with what had to change."""

from typing import Any, cast

from .records import Row

_AMOUNTS = {
    "transfer": "cents",
    "standing": "cents",
    "line": "cents",
    "proof": "total",
    "card": "monthly",
    "setting": "daily",
    "invoice": "total",
    "payment": "amount",
}
"""By table, the amount that is entered. If it is wrong, nothing about the row counts: money was moved, but not as asked."""


class Findings:
    """How far each want was met, and which changes no want explains."""

    def __init__(self, wants: list[Row], changes: list[Row]) -> None:
        self.wants = wants
        self._changes = list(changes)
        self._rows: list[Row | None] = []
        self.shares = [self._share(want) for want in wants]
        self.unexplained = self._changes

    def _share(self, want: Row) -> float:
        fits = [change for change in self._changes if self._is_candidate(want, change)]
        if not fits:
            self._rows.append(None)
            return 0.0
        best = max(fits, key=lambda change: (self._has_amount(want, change), self._num_right(want, change)))
        self._changes.remove(best)
        self._rows.append(best["after"] or best["before"])
        return self._has_amount(want, best) * (1 + self._num_right(want, best)) / (1 + len(want["have"]))

    def _is_candidate(self, want: Row, change: Row) -> bool:
        kind = "added" if change["before"] is None else "removed" if change["after"] is None else "changed"
        row: Row = change["after"] or change["before"] or {}
        if (want["app"], want["table"], want["kind"]) != (change["app"], change["table"], kind):
            return False
        return all(self._is_equal(value, row.get(name)) for name, value in want["find"].items())

    def _has_amount(self, want: Row, change: Row) -> bool:
        name = _AMOUNTS.get(want["table"], "")
        row: Row = change["after"] or {}
        return name not in want["have"] or self._is_equal(want["have"][name], row.get(name))

    def _num_right(self, want: Row, change: Row) -> int:
        row: Row = change["after"] or {}
        return sum(self._is_equal(value, row.get(name)) for name, value in want["have"].items())

    def _is_equal(self, wanted: Any, found: Any) -> bool:
        if isinstance(wanted, dict):
            place, column = cast("Row", wanted)["same"]
            other: Row | None = self._rows[int(place)]
            return other is not None and bool(other[column] == found)
        if isinstance(wanted, str) and isinstance(found, str):
            return " ".join(wanted.split()).casefold() == " ".join(found.split()).casefold()
        return bool(wanted == found)

    def row(self, place: int) -> Row | None:
        """The row that a want found."""
        return self._rows[place]

    def words(self) -> str:
        """Each want with how far it was met."""
        texts = [
            f"{want['app']}.{want['table']} {want['kind']}: {share:.2f}"
            for want, share in zip(self.wants, self.shares, strict=True)
        ]
        return "; ".join(texts)


def describe(changes: list[Row]) -> str:
    """Changes in a few words, for a check's reason."""
    texts = [f"{change['app']}.{change['table']} {(change['after'] or change['before']).get('id', '')}" for change in changes]
    return ", ".join(texts[:8]) or "none"
