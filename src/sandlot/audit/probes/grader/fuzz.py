"""Unusual answers: odd numbers, characters and brackets, random pieces, and the golden answer damaged."""

import re
from collections.abc import Sequence
from random import Random

# fmt: off
ODD_ANSWERS = (
    "", " ", "\n", "\0", "\ufeff5", "NaN", "inf", "-inf", "1e999", "-0", "1e-400", "\u0663", "\uff15", "\u00bd", "\u00b2",
    "\u2167", "1_000", "0x1F", "1/0", "9" * 400, "-" * 50, "1" + "0" * 5000, "1,2,,3", ",", ";", "/", "1/", "/2",
    "1:2:3", "--5", "5%", "%",
    "%s %d %n", "{0}", "{x!r}", "\u202e5\u202c", "e\u0301", "\U0001f600", "\u00df", "\u0130", "\u200b5\u200b", "5\r\n", "'",
    '"',    "`", "\\", "\\n", "\\boxed{", "$", "$$", "[", "]", "[[]]", "[1, 2", "(", ")", "((((", "{", "}", "{}",
    '{"a": 1}', '{"a"',
    "[1, null]", "null", "true", "[]", "()", "<answer>", "</answer><answer>", "<answer></answer>", "<a><b>", "```",
    "```python\n```",
    "# x", "A" * 10000, "a b " * 3000, "*", "(?P<", "[a-", "a{99999}", "(a+)+$" + "a" * 40, "2024-02-30", "99:99", "0000-00-00",
    "12/31/9999", "x=y=z", "=", "==", "None", "[" * 500, "(" * 500 + ")" * 500, "{" * 300, "9" * 5000, "1e" + "9" * 20,
    "-" * 2000 + "1", "+ - * /", "1 + ", "5 kg m", "\t1\t2",
)
_PIECES = (
    "0", "1", "7", "42", "-3", "2.5", "1e5", ",", ".", "-", "+", "/", "%", " ", "\n", "\t", "[", "]", "(", ")", "{",
    "}", '"', "'",
    "a", "x", "yes", "None", "nan", "=", ":", ";", "|", "<", ">", "\\", "$", "\u00e9", "\u6f22", "\0", "#", "*", "_", "`",
    "<answer>", "\\frac{1}{2}",
)
# fmt: on


def random_answer(rng: Random, golden: Sequence[str]) -> str:
    """Random pieces of syntax and of golden answers, joined."""
    pieces = [*_PIECES, *(word for answer in golden for word in answer.split()[:4])]
    return "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 12)))


def damaged_answers(golden: str) -> list[str]:
    """The golden answer, damaged in common ways."""
    half = len(golden) // 2
    letters = re.sub(r"[A-Za-z]", "x", golden)
    return [
        golden[:half],
        golden[half:],
        golden * 3,
        letters,
        re.sub(r"\d", "", golden),
        re.sub(r"\d+", "nan", golden),
        golden[::-1],
    ]
