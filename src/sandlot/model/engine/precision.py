"""The data type a model computes in: that of its stored weights, or float32 if the processor is faster with it.

A processor without bfloat16 instructions emulates them and is many times slower than in float32. So a small linear layer is timed
once in each type, in CPU seconds, and the timing is cached by processor and torch version. Every bfloat16 and float16 value is
exact in float32, so the weights stay the same. A GPU always computes in the stored type.
"""

import math
import os
import platform
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from sandlot.core.disk import write_file
from sandlot.core.types import Dtype, digest
from sandlot.model.engine.weights import cache_folder

_SLOWER = 1.25
"""A half type is used if it takes at most this many times the CPU time of float32, since it needs half the memory."""
_ROWS = (1, 64)
"""Tokens of the timed batches: decoding and a prompt."""
WIDTH, OUT, CALLS, REPEATS = 576, 1536, 3, 4
_MEASURED = 2
"""Increase it when the engine computes layers another way, so that cached timings are not used."""
_HOPELESS, _HOPELESS_S = 20, 0.05
"""A first call that takes this many times as long as float32 in all, and this many CPU seconds, is not repeated."""
_CPU_INFO = Path("/proc/cpuinfo")
_NAMES = ("model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")
"""The fields of `/proc/cpuinfo` that identify a processor type, on x86-64 and aarch64."""


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CPU time of a small linear layer in a half type and in float32."""

    processor: str
    torch: str
    half: str
    half_s: float
    """CPU seconds."""
    single_s: float
    """CPU seconds in float32."""

    @property
    def is_native(self) -> bool:
        """True if the half type is fast enough to use."""
        return self.half_s <= _SLOWER * self.single_s

    def __str__(self) -> str:
        ratio = self.half_s / max(self.single_s, 1e-12)
        return f"{self.half} takes {ratio:,.{1 if ratio < 10 else 0}f} times the CPU time of float32"


class Precision(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen type."""

    dtype: str
    why: str


Measure = Callable[[str], tuple[float, float]]
"""CPU seconds in a half type and in float32."""


def choose_precision(
    stored: str, named: Dtype | None = None, *, on_gpu: bool = False, timing: Callable[[str], Timing] | None = None
) -> Precision:
    """The type to compute in for weights stored as `stored`; a named type is never overridden."""
    if named is not None:
        return Precision(dtype=named.value, why="as named")
    if on_gpu or stored not in {"bfloat16", "float16"}:
        return Precision(dtype=stored, why="as stored")
    found = (timing or get_timing)(stored)
    return Precision(dtype=stored if found.is_native else "float32", why=f"{found} on this processor")


def get_timing(half: str, *, measure: Measure | None = None) -> Timing:
    """The timing of this processor: from the cache, or measured now and cached if possible."""
    found = read_timing(half)
    if found is not None:
        return found
    half_s, single_s = (measure or measure_linear)(half)
    timing = Timing(processor=processor_name(), torch=_torch_version(), half=half, half_s=half_s, single_s=single_s)
    with suppress(OSError):  # without a cache each process measures it: a few milliseconds
        file = _timing_path(half)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, msgspec.json.encode(timing), durable=False)
    return timing


def read_timing(half: str) -> Timing | None:
    """The cached timing of this processor and torch version; None if there is none or it is damaged. Does not import torch."""
    try:
        found = msgspec.json.decode(_timing_path(half).read_bytes(), type=Timing)
    except (OSError, ValueError):
        return None
    plausible = found.half == half and 0 < found.half_s < 3600 and 0 < found.single_s < 3600
    return found if plausible else None


def _timing_path(half: str) -> Path:
    key = digest(msgspec.json.encode([_MEASURED, _processor(), platform.machine(), _torch_version(), _settings()]))[:16]
    return cache_folder().parent / "timings" / f"{half}-{key}.json"


def processor_name() -> str:
    """The name of the processor."""
    facts = _processor()
    part = f"CPU part {facts['CPU part']}" if "CPU part" in facts else ""
    return facts.get("model name") or part or platform.processor() or platform.machine()


def _processor() -> dict[str, str]:
    """The identifying fields of the first processor."""
    try:
        text = _CPU_INFO.read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return {"model name": platform.processor() or platform.machine()}
    lines = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines if name.strip() in _NAMES}


def _settings() -> list[str]:
    """Settings of torch and oneDNN that change which instructions they use."""
    names = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
    return [os.environ.get(name, "") for name in names]


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def measure_linear(half: str) -> tuple[float, float]:
    """CPU seconds of a linear layer as the engine computes it, in a half type and in float32; the best of several tries."""
    import torch  # noqa: PLC0415 - reading a cached timing needs no torch
    from torch import nn  # noqa: PLC0415 - as above

    from sandlot.model.nn.packed import PackedLinear, can_pack  # noqa: PLC0415 - as above

    def seconds(dtype: torch.dtype, hopeless_s: float) -> float:
        linear = nn.Linear(WIDTH, OUT, bias=False, dtype=dtype)
        layer = PackedLinear(linear) if can_pack(linear.weight) else linear
        batches = [torch.ones(rows, WIDTH, dtype=dtype) for rows in _ROWS]
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch tells of a type that the processor lacks: that is what is measured here
            return sum(_best(lambda given=given: layer(given), hopeless_s) for given in batches)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # waiting threads use CPU time too
    try:
        single_s = seconds(torch.float32, math.inf)
        return seconds(getattr(torch, half), max(_HOPELESS_S, _HOPELESS * single_s)), single_s
    finally:
        torch.set_num_threads(threads)


def _best(call: Callable[[], object], hopeless_s: float) -> float:
    """CPU seconds of `CALLS` calls. A first call longer than `hopeless_s` is enough: an emulated type takes seconds."""
    started = time.process_time()
    call()  # allocates and packs
    first_s = time.process_time() - started
    if first_s > hopeless_s:
        return first_s * CALLS
    found: list[float] = []
    for _ in range(REPEATS):
        started = time.process_time()
        for _ in range(CALLS):
            call()
        found.append(time.process_time() - started)
    return max(min(found), 1e-9)
