"""Metrics of a model server in Prometheus format."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

_ROUTES = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/models"})
"""Routes counted by name. Other paths come from clients and must not become labels."""


class Metrics:
    """Counters of the server, and the engine's metrics at the time of a request."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self.running = 0
        """Completions that are running or queued."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        """Prompt tokens found in the prefix cache."""
        self.sampled_tokens = 0
        self._answers: Counter[tuple[str, int]] = Counter()
        self._gauges = gauges

    def count(self, route: str, status: int) -> None:
        """Count a reply."""
        self._answers[route if route in _ROUTES else "other", status] += 1

    def text(self) -> str:
        """All metrics as text."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield "# TYPE sandlot_requests_total counter"
        for (route, status), number in sorted(self._answers.items()):
            yield f'sandlot_requests_total{{route="{route}",status="{status}"}} {number}'
        for name in ("prompt_tokens", "cached_tokens", "sampled_tokens"):
            yield f"# TYPE sandlot_{name}_total counter"
            yield f"sandlot_{name}_total {getattr(self, name)}"
        hit_rate = self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0
        engine = {f"engine_{name}": value for name, value in self._gauges().items()}
        for name, value in {"running": self.running, "prefix_hit_rate": hit_rate, **engine}.items():
            yield f"# TYPE sandlot_{name} gauge"
            yield f"sandlot_{name} {value:g}"
