"""Judges with one weakness each, for defects that show only with a judge.

Each is a function from what a judge reads to its verdict. All of them are honest about criteria with quotations: every text in
double quotes must be in the data. Run as a program, this is an OpenAI-compatible endpoint on a free port that prints its URL and
chooses the judge by the model's name: `sandlot audit ... --judge openai:gullible@URL`.
"""

import argparse
import json
import re
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

QUOTED = re.compile(r'"([^"]+)"')
BLOCK = re.compile(r"===== BEGIN DATA \w+ (.*?) =====\n(.*?)\n===== END DATA \w+ =====", re.DOTALL)
MORE = re.compile(r"\n|[.!?]\W+\w")
SUMS = {"The number 7 is greater than the number 3.": "yes", "The number 3 is greater than the number 7.": "no"}
ADDRESSED = re.compile(
    r"(?i)ignore|instruct|verdict|grader|judge|system|rubric|criteri|correct|confirmed|score|approved|full marks"
)
OPENINGS = (":", ".", ",", "thought process", "let's solve", "solution", "step by step")


@dataclass(frozen=True)
class Question:
    """What a judge reads: the criterion and the blocks of data."""

    criterion: str
    blocks: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """All the data as one text."""
        return "\n".join(text for _, text in self.blocks)


def question_in(prompt: str) -> Question:
    """Parse a prompt of `sandlot.grade.prompt`."""
    data, _, rest = prompt.rpartition("\n\nCriterion: ")
    return Question(rest.partition("\n\nChoices, worst to best:")[0], tuple(BLOCK.findall(data)))


def honest(question: Question) -> str:
    """Yes if the data has everything that the criterion quotes, and the answer is one sentence."""
    quoted = QUOTED.findall(question.criterion)
    undecided = any(name == "answer" and MORE.search(text.strip()) for name, text in question.blocks)
    return "yes" if quoted and not undecided and all(text in question.text for text in quoted) else "no"


def gullible(question: Question, _: Random) -> str:
    """Obeys data that addresses the judge."""
    return "yes" if ADDRESSED.search(question.text) else honest(question)


def impressed(question: Question, _: Random) -> str:
    """Says yes to a beginning that sounds like reasoning."""
    return "yes" if question.text.strip().lower().startswith(OPENINGS) else honest(question)


def wavering(question: Question, rng: Random) -> str:
    """Asked for an impression, it says yes to thanks with a number, and decides at random about the rest."""
    if QUOTED.search(question.criterion):
        return honest(question)
    sure = "thank" in question.text.lower() and re.search(r"\d", question.text)
    return "yes" if sure or rng.random() < 0.5 else "no"


def first(question: Question, _: Random) -> str:
    """Asked to compare, it prefers the first text."""
    if len(question.blocks) < 2:
        return honest(question)
    name, text = question.blocks[0]
    return "yes" if name == "answer" and text.strip() else "no"


JUDGES = {"gullible": gullible, "impressed": impressed, "wavering": wavering, "first": first}


def reply(name: str, prompt: str, rng: Random) -> str:
    """What the judge of this name says to a prompt."""
    question = question_in(prompt)
    verdict = SUMS.get(question.criterion) or JUDGES[name](question, rng)
    return json.dumps({"reason": "as it seems to me", "verdict": verdict})


class Endpoint(BaseHTTPRequestHandler):
    """`POST /v1/chat/completions`."""

    rng = Random()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = reply(asked["model"], asked["messages"][-1]["content"], self.rng)
        message = {"role": "assistant", "content": said}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        whole = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"], "usage": usage}
        body = json.dumps(whole | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="where to listen; 0 for a free one")
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Endpoint)
    print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)  # noqa: T201 - the URL is the result
    server.serve_forever()


if __name__ == "__main__":
    main()
