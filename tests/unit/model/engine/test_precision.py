"""Which number type a model computes in."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from builders.tiny_models import write_tiny
from sandlot.core.ports.model import Sampling
from sandlot.core.types import Dtype
from sandlot.model.engine.local import LocalConfig, open_local
from sandlot.model.engine.precision import Timing, choose_precision, get_timing, measure_linear, processor_name, read_timing
from sandlot.model.nn.folder import load_folder, save_folder


def timing(half_s: float, single_s: float) -> Timing:
    return Timing(processor="made up", torch="0", half="bfloat16", half_s=half_s, single_s=single_s)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sandlot" / "timings"


def test_a_processor_that_emulates_bfloat16_computes_in_float32():
    chosen = choose_precision("bfloat16", timing=lambda _: timing(65.0, 1.0))
    assert chosen.dtype == "float32"
    assert chosen.why == "bfloat16 takes 65 times the CPU time of float32 on this processor"


def test_a_processor_with_bfloat16_uses_it():
    assert choose_precision("bfloat16", timing=lambda _: timing(1.2, 1.0)).dtype == "bfloat16"


@pytest.mark.parametrize("named", list(Dtype))
def test_a_named_type_is_never_overridden(named: Dtype):
    assert choose_precision("bfloat16", named, timing=lambda _: timing(65.0, 1.0)).dtype == named.value


@pytest.mark.parametrize(("stored", "on_gpu"), [("float32", False), ("float64", False), ("bfloat16", True)])
def test_nothing_is_measured_where_there_is_nothing_to_choose(stored: str, on_gpu: bool):
    def never(_half: str) -> Timing:
        raise AssertionError("measured")

    assert choose_precision(stored, on_gpu=on_gpu, timing=never).dtype == stored


def test_a_timing_is_measured_once_and_kept(cache: Path):
    measured: list[str] = []

    def measure(half: str) -> tuple[float, float]:
        measured.append(half)
        return 3.0, 1.0

    first, second = (get_timing("bfloat16", measure=measure) for _ in range(2))
    assert first == second == read_timing("bfloat16")
    assert (measured, first.processor) == (["bfloat16"], processor_name())
    assert [file.suffix for file in cache.iterdir()] == [".json"]


def test_another_choice_of_instructions_is_another_timing(monkeypatch: pytest.MonkeyPatch):
    get_timing("bfloat16", measure=lambda _: (3.0, 1.0))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert read_timing("bfloat16") is None


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff", b'{"half_s": "fast"}', b"[" * 5000])
def test_a_damaged_file_is_measured_again(cache: Path, damage: bytes):
    get_timing("bfloat16", measure=lambda _: (3.0, 1.0))
    (file,) = cache.iterdir()
    file.write_bytes(damage)
    assert get_timing("bfloat16", measure=lambda _: (1.0, 2.0)).single_s == 2.0
    assert read_timing("bfloat16") == get_timing("bfloat16", measure=lambda _: (9.0, 9.0))


def test_where_nothing_can_be_kept_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert get_timing("bfloat16", measure=lambda _: (3.0, 1.0)).half_s == 3.0
    assert read_timing("bfloat16") is None


def test_several_at_once_leave_one_whole_file(cache: Path):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda each: get_timing("bfloat16", measure=lambda _: (float(each + 1), 1.0)), range(32)))
    assert read_timing("bfloat16") in found
    assert len(list(cache.iterdir())) == 1


def test_the_real_measurement_gives_cpu_seconds_and_leaves_torch_as_it_was():
    before = torch.get_num_threads()
    assert all(0 < seconds < 20 for seconds in measure_linear("bfloat16"))
    assert torch.get_num_threads() == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = write_tiny(tmp_path / "model")
    save_folder(load_folder(place), place, dtype=torch.bfloat16, like=place)
    return place


@pytest.mark.parametrize(
    ("slow", "named", "used"), [(True, None, "float32"), (False, None, "bfloat16"), (True, Dtype.BFLOAT16, "bfloat16")]
)
async def test_an_engine_computes_and_tells_what_was_chosen(folder: Path, slow: bool, named: Dtype | None, used: str):
    get_timing("bfloat16", measure=lambda _: (65.0, 1.0) if slow else (1.0, 65.0))  # as if this were such a processor
    async with open_local(folder, config=LocalConfig(kv_bytes=2**22, dtype=named)) as model:
        sampled = await model.sample([1, 2, 3], Sampling(max_tokens=2, seed=1))
    assert (model.dtype, sampled.dtype) == (used, used)
