"""The Inspect side of `view.py`, run inside Inspect's own environment: `view_inspect.py FILE SAMPLES` writes a log of samples.

They hold the same questions and answers as our traces, with one score each, and are written with Inspect's own `write_eval_log`:
the file that an evaluation of that many samples leaves.
"""

import sys
import tempfile
from pathlib import Path
from random import Random

from inspect_ai import Task, eval  # noqa: A004 - Inspect's name for it
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample, read_eval_log, write_eval_log
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput
from inspect_ai.scorer import Score, includes

WORDS = ["".join(Random(n).choices("etaoinshrdlucmfwyp", k=2 + n % 9)) for n in range(2000)]


def samples(count: int) -> list[EvalSample]:
    random, found = Random(0), []
    for number in range(count):
        text = " ".join(random.choices(WORDS, k=40))
        messages = [ChatMessageUser(content=text[:120]), ChatMessageAssistant(content=text)]
        found.append(
            EvalSample(
                id=f"task-{number // 8}-{number % 8}",
                epoch=1,
                input=text[:120],
                target="right",
                messages=messages,
                output=ModelOutput.from_content("mockllm/model", text),
                scores={"includes": Score(value="C", answer="42", explanation="it is right")},
                uuid=f"sample-{number}",
            )
        )
    return found


def main() -> None:
    file, count = Path(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:  # a short evaluation, for the head of the log
        task = Task(dataset=[Sample(input="x", target="Default")], scorer=includes())
        [short] = eval(task, model="mockllm/model", log_dir=folder, display="none")
        head = read_eval_log(short.location)
    head.eval.dataset.samples = count
    log = head.model_copy(update={"samples": samples(count), "status": "success", "error": None})
    write_eval_log(log, str(file))


if __name__ == "__main__":
    main()
