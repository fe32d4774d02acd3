"""How busy the servers of a model are, from their metrics in Prometheus's text: ours, vLLM's and SGLang's.

Names are those of our own server, of vLLM 0.6 and later, and of SGLang 0.4 and later. What a server does not say is None; nothing
that it writes can fail a run.
"""

import math
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(\{.*\})?\s+(\S+)\s*$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_LONGEST_LINE = 4096
_MOST_CHARS = 4 << 20
"""What is longer is not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoad:
    """The load of a model's servers together; None where they do not say."""

    queued: int | None = None
    """Requests that wait inside."""
    cache_used: float | None = None
    """Share of the key-value cache that requests under way hold; of several servers, of the fullest."""
    cache_tokens: int | None = None
    """Tokens that their key-value caches hold."""


LoadOf = Callable[[], Awaitable[ServerLoad]]
"""Asks the servers of a model."""


def load_of(model: object) -> LoadOf | None:
    """The way to ask a model or its policies; None if there is none. Those of plug-ins need not have one."""
    return getattr(model, "server_load", None)


def parse_load(text: str, dialect: str, cache_tokens: int | None = None) -> ServerLoad:
    """The load in a server's metrics; `cache_tokens` is what the server said elsewhere."""
    found = _samples(text)
    match dialect:
        case "sandlot":
            blocks, used = _sum(found, "sandlot_engine_kv_blocks"), _sum(found, "sandlot_engine_kv_blocks_running")
            return ServerLoad(
                queued=_count(_sum(found, "sandlot_engine_waiting")),
                cache_used=used / blocks if blocks and used is not None else None,
                cache_tokens=cache_tokens,
            )
        case "vllm":
            used = _most(found, "vllm:kv_cache_usage_perc")
            return ServerLoad(
                queued=_count(_sum(found, "vllm:num_requests_waiting")),
                cache_used=used if used is not None else _most(found, "vllm:gpu_cache_usage_perc"),
                cache_tokens=cache_tokens or _vllm_tokens(found),
            )
        case "sglang":
            return ServerLoad(
                queued=_count(_sum(found, "sglang:num_queue_reqs")),
                cache_used=_most(found, "sglang:token_usage"),
                cache_tokens=cache_tokens or _count(_sum(found, "sglang:max_total_num_tokens")),
            )
        case _:
            return ServerLoad(cache_tokens=cache_tokens)


def add_loads(loads: Iterable[ServerLoad]) -> ServerLoad:
    """The load of several servers. If one does not say how much it holds, that of all is not known."""
    each = list(loads)
    queued = [load.queued for load in each if load.queued is not None]
    used = [load.cache_used for load in each if load.cache_used is not None]
    tokens = [load.cache_tokens for load in each if load.cache_tokens is not None]
    return ServerLoad(
        queued=sum(queued) if queued else None,
        cache_used=max(used, default=None),
        cache_tokens=sum(tokens) if tokens and len(tokens) == len(each) else None,
    )


_Samples = dict[str, list[tuple[dict[str, str], float]]]


def _samples(text: str) -> _Samples:
    found: _Samples = {}
    for line in text[:_MOST_CHARS].splitlines():
        match = _LINE.match(line) if len(line) <= _LONGEST_LINE else None
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        if math.isfinite(value) and value >= 0:
            found.setdefault(match[1], []).append((dict(_LABEL.findall(match[2] or "")), value))
    return found


def _sum(found: _Samples, name: str) -> float | None:
    return sum(value for _, value in found[name]) if name in found else None


def _most(found: _Samples, name: str) -> float | None:
    return max(value for _, value in found[name]) if name in found else None


def _count(value: float | None) -> int | None:
    return None if value is None else int(value)


def _vllm_tokens(found: _Samples) -> int | None:
    """In the labels of a metric whose value is 1."""
    total = 0
    for labels, _ in found.get("vllm:cache_config_info", ()):
        blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
        if not (blocks.isascii() and blocks.isdigit() and size.isascii() and size.isdigit()):
            return None
        total += int(blocks[:12]) * int(size[:12])
    return total or None
