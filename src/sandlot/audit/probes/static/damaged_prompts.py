r"""Prompts that are damaged: text cut inside, options made equal, no passage, `\n` for line breaks, a question of another kind.

`lost_text.py` learns from many tasks which fields belong into prompts. Here one prompt beside its row is enough: what is left of
a text shows that the rest was cut.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.static.lost_text import texts_of
from sandlot.audit.statement import core_of
from sandlot.core.task import Task

_USUAL, _LEAST, _MOST_TASKS, _LONGEST = 0.8, 3, 500, 4000
_ELSEWHERE = re.compile(
    r"(?i)original|source|raw|old|full|explanation|rationale|solution|reasoning|url|path|title|hint|note|desc"
)
"""Fields whose text may resemble the prompt, and is not meant to be shown."""
_BRACKETED = tuple(map(re.compile, (r"\s*\[[^\[\]]*\]", r"\s*\([^()]*\)", r"\s*\{[^{}]*\}", r"\s*<[^<>]*>")))
_REMARK = re.compile(
    r"(?i)\[\d+\]|\b(?:points?|marks?|citation|source|edit\w*|adapted|hint|note|image|figure|fig|page|sic|optional)\b|</?\w+"
)
"""Brackets that may be left out: references, notes, markup."""
_CUT_WORDS = 8
_OPTION = re.compile(r"(?m)^[ \t]*\(?([A-J])[).:][ \t]+(\S.*?)[ \t]*$")
_BACKGROUND = re.compile(
    r"(?i)(?:^|[._])(?:context|passage|article|paragraph|excerpt|story|table|premise|dialogue|conversation)s?$"
)
_REFERS = re.compile(
    r"(?i)\b(?:(?:the|this) (?:passage|article|paragraph|excerpt|story|table|dialogue|conversation|text (?:above|below))"
    r"|according to the (?:text|context)|given the (?:text|context)|(?:above|following) (?:text|context|passage|table))\b"
)
_ESCAPED = re.compile(r"(?<=[\w.:!?>)\]}])(?:\\n)+(?=[A-Z{\[<#*\\-]|$)")
_QUOTED = re.compile(r"(?s)```.*?```|`[^`\n]{1,200}`|\"[^\"\n]{1,200}\"|'[^'\n]{1,200}'")
"""Code and quoted text, where the two characters may be meant."""
_COUNTS = re.compile(
    r"(?i)\b(?:how many|(?:find|give|compute|determine|calculate|what is) the (?:total )?(?:number|length|count) of)\b"
)
_ASKING = re.compile(
    r"(?i)\?|\b(?:find|give|compute|determine|calculate|output|return|write|reply|answer|list|name|what|which|how)\b"
)
_NUMERAL = re.compile(
    r"(?i)\d|[\u0660-\u0669]|\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|none|no|half|infinit\w*|dozen|"
    r"\w+teen|\w+ty|many|several|both|all|once|twice|hundred|thousand|million|[ivxlcdm]+|[a-z])\b"
)


async def _look(case: Case) -> list[Finding]:
    """Prompts say what their rows say."""
    tasks = [task for task in case.description.tasks[:_MOST_TASKS] if task.prompt.strip()]
    if case.description.tools or case.description.image is not None:
        tasks = []  # there the agent may read the data by other means
    looks = (_cut(tasks), _equal_options(tasks), _no_background(tasks), _escaped_breaks(tasks), _other_kind(tasks))
    return [finding for each in looks for finding in each]


# -- text that was cut -------------------------------------------------------------------------------------------------


def _cut(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Fields of which prompts show the beginning or both ends, and not the rest."""
    whole: Counter[str] = Counter()
    num: Counter[str] = Counter()
    damaged: dict[str, list[tuple[Task, str, str]]] = defaultdict(list)
    for task in tasks:
        prompt = _spaced(task.prompt)
        for field, text in texts_of(task.data):
            said = " ".join(text.split())
            if not 1 < len(said) <= _LONGEST or _ELSEWHERE.search(field):
                continue
            num[field] += 1
            if said in prompt.replace("\n", " "):
                whole[field] += 1
            elif lost := _lost_piece(said, prompt):
                damaged[field].append((task, said, lost))
    for field, found in damaged.items():
        if num[field] < _LEAST or whole[field] + len(found) < _USUAL * num[field]:
            continue
        task, said, lost = min(found, key=lambda each: (len(each[1]), each[0].id))
        yield make_finding(
            "D15.cut",
            f"the prompt shows text of `{field}` with a piece cut out, on {len(found)} of {num[field]} tasks",
            Witness(
                inputs={"task": task.id, "field": field, "text": said[:1000], "prompt": task.prompt[-1500:]},
                expected="the whole text is in the prompt",
                observed=f"the prompt has what stands around `{lost[:200]}`, and not that",
            ),
            severity=Severity.HIGH,
            sure=len(found) == 1 or len({each[2] for each in found}) > 1,  # one and the same piece may be markup
            task=task.id,
            count=len(found),
            fix="show the text as it is in the row; a pattern that removes markup removes content too",
        )


def _lost_piece(text: str, prompt: str) -> str | None:
    """What a prompt lacks of a text of which it shows the rest; None if the rest is not there either."""
    for brackets in _BRACKETED:
        without, lost = brackets.sub("", text).strip(), " ".join(each.strip() for each in brackets.findall(text))
        if without and lost and not _REMARK.search(lost) and re.search(rf"(?<!\w){_loose(without)}\s*(?:\n|$)", prompt):
            return lost if _is_absent(lost, prompt) else None
    if (shown := _before_the_cut(text, prompt)) is not None:
        lost = text[len(shown) :].strip()
        return lost if len(shown.split()) >= _CUT_WORDS and _is_absent(lost, prompt) else None
    return None


def _before_the_cut(text: str, prompt: str) -> str | None:
    """The longest beginning of a text, in whole words, that ends a line of the prompt."""
    words = text.split(" ")
    for count in range(len(words) - 1, _CUT_WORDS - 1, -1):
        start = " ".join(words[:count])
        if re.search(rf"(?<!\w){_loose(start)}\s*(?:\.\.\.)?\s*(?:\n|$)", prompt):
            return start
    return None


def _is_absent(lost: str, prompt: str) -> bool:
    """True if most of the words of a piece are nowhere in the prompt."""
    words = re.findall(r"\w+", lost)
    known = set(re.findall(r"\w+", prompt))
    return bool(words) and sum(word not in known for word in words) * 2 > len(words)


def _loose(text: str) -> str:
    return r"\s*".join(re.escape(word) for word in text.split())


def _spaced(prompt: str) -> str:
    """The lines of a prompt, each with single spaces."""
    return "\n".join(" ".join(line.split()) for line in prompt.split("\n"))


# -- options -----------------------------------------------------------------------------------------------------------


def _equal_options(tasks: Sequence[Task]) -> Iterator[Finding]:
    """The right option and another one with the same text."""
    found: list[tuple[Task, str, list[str]]] = []
    for task in tasks:
        golden = task.key.get("golden")
        right = core_of(golden) if isinstance(golden, str) else ""
        options = _options(task.prompt)
        same = [letter for letter, text in options.items() if text == options.get(right)]
        if len(same) > 1:
            found.append((task, right, same))
    if found:
        task, right, same = found[0]
        others = [letter for letter in same if letter != right]
        yield make_finding(
            "D15.twin_options",
            f"the right option and another one have the same text, so nobody can choose, on {len(found)} of {len(tasks)} tasks",
            Witness(
                inputs={"task": task.id, "prompt": task.prompt[-1500:], "right": right},
                expected="options that differ",
                observed=f"`{right}` and `{'`, `'.join(others)}` say `{_options(task.prompt)[right][:200]}`",
            ),
            severity=Severity.HIGH,
            task=task.id,
            count=len(found),
        )


def _options(prompt: str) -> dict[str, str]:
    """The text of each option by its letter: the last list that begins with A."""
    found: dict[str, str] = {}
    for letter, text in _OPTION.findall(prompt):
        if letter == "A":
            found = {}
        if ord(letter) - ord("A") == len(found):
            found[letter] = " ".join(text.split())
    return found if len(found) > 1 else {}


# -- passages ----------------------------------------------------------------------------------------------------------


def _no_background(tasks: Sequence[Task]) -> Iterator[Finding]:
    """A passage that rows have and no prompt shows, although questions are about it."""
    texts: dict[str, list[tuple[Task, str]]] = defaultdict(list)
    for task in tasks:
        for field, text in texts_of(task.data):
            if _BACKGROUND.search(field) and len(text.split()) >= _CUT_WORDS:
                texts[field].append((task, text))
    for field, found in texts.items():
        missing = [(task, text) for task, text in found if not _shows_part(text, task.prompt)]
        if len(missing) < max(2, _USUAL * len(found)):
            continue
        here = {task.id for task, _ in found}
        bare = [task for task in tasks if task.id not in here and field in task.data and not task.data[field]]
        refers = [(task, text) for task, text in missing if _REFERS.search(task.prompt)]
        task, text = (refers or missing)[0]
        yield make_finding(
            "D15.background",
            f"no prompt shows `{field}`, which {len(found)} of {len(tasks)} rows have",
            Witness(
                inputs={"task": task.id, "field": field, "text": text[:1000], "prompt": task.prompt[-1500:]},
                expected=f"`{field}` is in the prompt, since "
                + ("the prompt speaks of it" if refers else "rows whose question needs none have none"),
                observed="nothing of it is in the prompt",
            ),
            severity=Severity.HIGH,
            sure=bool(refers) or bool(bare),
            task=task.id,
            count=len(missing),
            fix="put the passage before the question",
        )


def _shows_part(text: str, prompt: str) -> bool:
    """True if a run of a few words of a text is in the prompt."""
    words = text.split()
    shown = " ".join(prompt.split())
    return any(" ".join(words[at : at + 4]) in shown for at in range(max(1, len(words) - 3)))


# -- line breaks -------------------------------------------------------------------------------------------------------


def _escaped_breaks(tasks: Sequence[Task]) -> Iterator[Finding]:
    r"""Prompts whose template shows `\n` where a line ends."""
    shown = {task.id: _ESCAPED.findall(_QUOTED.sub("", task.prompt)) for task in tasks}
    found = [task for task in tasks if len(shown[task.id]) > 1 and not any("\\n" in text for _, text in texts_of(task.data))]
    if len(found) >= max(_LEAST, _USUAL * len(tasks)):
        task = found[0]
        yield make_finding(
            "D15.escaped",
            f"prompts show `\\n`, a backslash and a letter, where lines should end, on {len(found)} of {len(tasks)} tasks",
            Witness(
                inputs={"task": task.id, "prompt": task.prompt[:1500]},
                expected="line breaks",
                observed=f"`{shown[task.id][0]}` {len(shown[task.id])} times",
            ),
            severity=Severity.HIGH,
            task=task.id,
            count=len(found),
            fix="in YAML, write the template in double quotes or as a block; elsewhere, remove the second backslash",
        )


# -- what is asked -----------------------------------------------------------------------------------------------------


def _other_kind(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Prompts that ask for a number where no key has one."""
    asked = [task for task in tasks if isinstance(task.key.get("golden"), str) and _COUNTS.search(_last_request(task.prompt))]
    wrong = [task for task in asked if not _NUMERAL.search(core_of(str(task.key["golden"])))]
    if len(asked) < max(_LEAST, _USUAL * len(tasks)) or len(wrong) < _USUAL * len(asked):
        return
    task = wrong[0]
    request, golden = _last_request(task.prompt), str(task.key["golden"])
    yield make_finding(
        "D15.kind",
        f"prompts ask for a number, and the key has none, on {len(wrong)} of {len(asked)} tasks",
        Witness(
            inputs={"task": task.id, "asked": request[:500], "golden": golden[:200]},
            expected="a number as the key",
            observed=f"the key `{golden[:200]}`",
        ),
        severity=Severity.HIGH,
        task=task.id,
        count=len(wrong),
        fix="ask for what the key holds",
    )


def _last_request(prompt: str) -> str:
    """The last sentence that asks for something."""
    sentences = re.split(r"(?<=[.?!:])\s+|\n{2,}", prompt)
    asking = re.compile(
        r"(?i)\?|\b(?:find|give|compute|determine|calculate|output|return|write|reply|answer|list|name|what|which|how)\b"
    )
    return next((each for each in reversed(sentences) if asking.search(each)), "")


PROBE = Probe("damaged-prompts", Layer.STATIC, ("D15",), _look)
