"""Metrics of a model server for Prometheus."""

from collections.abc import Callable, Iterator, Mapping

from sandlot.observe.metrics import Metric, render_metrics

_ROUTES = frozenset({"/v1/completions", "/v1/chat/completions", "/v1/models"})
"""Routes counted by name. Other paths come from clients and must not become labels."""
_COUNTERS = {
    "prompt_tokens": "Tokens of prompts.",
    "cached_tokens": "Prompt tokens found in the prefix cache.",
    "sampled_tokens": "Tokens sampled.",
}


class Metrics:
    """Counters of the server, and the engine's metrics at the time of a request."""

    def __init__(self, gauges: Callable[[], Mapping[str, float]]) -> None:
        self.running = 0
        """Completions that are running or queued."""
        self.prompt_tokens = 0
        self.cached_tokens = 0
        """Prompt tokens found in the prefix cache."""
        self.sampled_tokens = 0
        self._answers = Metric("counter", "sandlot_requests_total", "Replies by route and status.", ("route", "status"))
        self._gauges = gauges

    def count(self, route: str, status: int) -> None:
        """Count a reply."""
        self._answers.add(1, route if route in _ROUTES else "other", str(status))

    def text(self) -> str:
        """All metrics as text."""
        return render_metrics(self._metrics())

    def _metrics(self) -> Iterator[Metric]:
        yield self._answers
        for name, meaning in _COUNTERS.items():
            counter = Metric("counter", f"sandlot_{name}_total", meaning)
            counter.add(getattr(self, name))
            yield counter
        hit_rate = self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0
        engine = {f"engine_{name}": value for name, value in self._gauges().items()}
        for name, value in {"running": self.running, "prefix_hit_rate": hit_rate, **engine}.items():
            gauge = Metric("gauge", f"sandlot_{name}", f"{name.replace('_', ' ').capitalize()} at the time of this reply.")
            gauge.set(value)
            yield gauge
