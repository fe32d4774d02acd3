"""The Inspect side of `store.py`, run inside Inspect's own environment: `store_inspect.py FOLDER SAMPLES LOOKS`.

A short evaluation with Inspect's mock model gives real samples; they are repeated under new ids and written with Inspect's own
`write_eval_log`, which is the file an evaluation of that many samples leaves.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from random import Random

from inspect_ai import Task, eval  # noqa: A004 - Inspect's name for it
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, read_eval_log_sample, write_eval_log
from inspect_ai.scorer import includes

WORDS = ["".join(Random(n).choices("etaoinshrdlucmfwyp", k=2 + n % 9)) for n in range(2000)]


def written(folder: Path, count: int) -> Path:
    random = Random(0)
    dataset = [Sample(input=" ".join(random.choices(WORDS, k=40)), target="Default") for _ in range(min(count, 100))]
    [log] = eval(Task(dataset=dataset, scorer=includes()), model="mockllm/model", log_dir=str(folder / "inspect"), display="none")
    short = read_eval_log(log.location)
    samples = [
        short.samples[number % len(short.samples)].model_copy(update={"id": number + 1, "uuid": f"sample-{number}"})
        for number in range(count)
    ]
    path = folder / "full.eval"
    write_eval_log(short.model_copy(update={"samples": samples}), str(path))
    return path


def main() -> None:
    folder, count, looks = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    path = written(folder, count)
    start = time.perf_counter()
    log = read_eval_log(str(path))
    opened = time.perf_counter() - start
    assert len(log.samples) == count
    start = time.perf_counter()
    read_eval_log(str(path), header_only=True)
    header = time.perf_counter() - start
    random, times = Random(1), []
    for _ in range(min(looks, 100)):
        number = random.randrange(count) + 1
        start = time.perf_counter()
        assert read_eval_log_sample(str(path), id=number).id == number
        times.append((time.perf_counter() - start) * 1000)
    found = {
        "traces": count,
        "bytes_per_trace": path.stat().st_size / count,
        "open_s": opened,
        "header_s": header,
        "trace_ms": {"p50": statistics.median(times), "p99": statistics.quantiles(times, n=100)[98]},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
