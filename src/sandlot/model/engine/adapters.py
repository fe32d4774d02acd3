"""The adapters of an engine: each load of a folder is one, with a version of its own, and never changes.

A request takes the adapter that its name means when it is submitted, and keeps it to its end. So a name may be given to new
weights, or removed, while requests run: they finish on what they began with, and new ones get the new weights or are refused. An
adapter stays in memory until its name is gone and its last request has ended.
"""

from dataclasses import dataclass

from sandlot.model.nn.mixed import AdapterWeights


class AdapterError(ValueError):
    """An adapter cannot be loaded, used or removed. Nothing has changed."""


@dataclass(slots=True, eq=False)
class Adapter:
    """The weights that one load has brought."""

    name: str
    version: int
    """The number of its load in this engine, from 1; no two adapters have the same."""
    weights: AdapterWeights
    num_requests: int = 0
    """Requests that use it and have not ended."""
    is_named: bool = True
    """True if new requests can name it."""

    @property
    def is_over(self) -> bool:
        """True if nothing can use it any more."""
        return not self.is_named and not self.num_requests


class Adapters:
    """What names mean now, and old versions that requests still use; at most `most` together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: dict[str, Adapter] = {}
        self._old: list[Adapter] = []
        self._num_loads = 0

    def __len__(self) -> int:
        return len(self._named) + len(self._old)

    @property
    def versions(self) -> dict[str, int]:
        """The names that requests may use, each with its version."""
        return {name: adapter.version for name, adapter in self._named.items()}

    def load(self, name: str, weights: AdapterWeights, *, replace: bool = False) -> tuple[Adapter, Adapter | None]:
        """Give a name to new weights; returns the new adapter, and the one that it replaces."""
        if not name:
            raise AdapterError("an adapter needs a name")
        before = self._named.get(name)
        if before is not None and not replace:
            raise AdapterError(f"the adapter `{name}` has already been loaded; remove it first, or replace it")
        frees = before is not None and not before.num_requests
        if len(self) - frees >= self._most:
            in_use = f", {len(self._old)} of them old versions that requests still use" if self._old else ""
            raise AdapterError(
                f"the adapter `{name}` would be one more than the maximum of {self._most} adapters in memory{in_use}; "
                "remove one, or allow more"
            )
        if before is not None:
            self.remove(name)
        self._num_loads += 1
        adapter = self._named[name] = Adapter(name, self._num_loads, weights)
        return adapter, before

    def remove(self, name: str) -> Adapter:
        """Refuse the name from now on; requests that use the adapter finish."""
        adapter = self._named.pop(name, None)
        if adapter is None:
            raise AdapterError(self._unknown(name))
        adapter.is_named = False
        if adapter.num_requests:
            self._old.append(adapter)
        return adapter

    def take(self, name: str) -> Adapter:
        """The adapter for a new request."""
        adapter = self._named.get(name)
        if adapter is None:
            raise AdapterError(self._unknown(name))
        adapter.num_requests += 1
        return adapter

    def give_back(self, adapter: Adapter) -> None:
        """A request with it has ended."""
        adapter.num_requests -= 1
        if adapter.is_over:
            self._old.remove(adapter)

    def _unknown(self, name: str) -> str:
        return f"there is no adapter `{name}`; loaded: {', '.join(sorted(self._named)) or 'none'}"
