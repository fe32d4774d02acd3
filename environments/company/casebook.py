"""All cases of all trades, in one list. A trade is a module with families; a family makes cases and knows how to solve them."""

import functools
from random import Random

from .casework import Case, Family
from .firm import build_firm
from .people import TODAY
from .trades import finance, hr, letters_out, oncall, procurement, releases, reports, sales, scheduling, support

TRADES = {
    "support": support,
    "procurement": procurement,
    "finance": finance,
    "oncall": oncall,
    "releases": releases,
    "stakeholders": letters_out,
    "reports": reports,
    "scheduling": scheduling,
    "hr": hr,
    "sales": sales,
}
FAMILIES: dict[str, Family] = {f"{trade}.{family.name}": family for trade, module in TRADES.items() for family in module.FAMILIES}


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """The cases, from the firm's seed. Each family draws from a generator of its own, so that one can grow without the others."""
    firm = build_firm()
    cases: list[Case] = []
    asked: set[str] = set()
    for name, family in FAMILIES.items():
        rng = Random(f"{firm.seed}:{name}")
        for number, draft in enumerate(family.draft(firm, rng), start=1):
            request = draft.prompt
            while draft.prompt in asked:  # the same request comes from another colleague
                sender = rng.choice(
                    [person for person in firm.people.values() if person.left is None and not firm.away(person.login, TODAY)]
                )
                draft.prompt = f"{request}\n\n{sender.name}, {sender.title}"
            asked.add(draft.prompt)
            cases.append(draft.finish(name, number))
    return tuple(cases)


CASES = all_cases()
SOLUTIONS = {name: family.solve for name, family in FAMILIES.items()}
