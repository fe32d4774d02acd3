"""The firm from a seed: first everything that is true, then everything that people wrote about it. Built once per process."""

import functools
import hashlib
from dataclasses import fields
from random import Random

from .chatter import write_chatter
from .diary import write_diary
from .letters import write_letters
from .market import add_market
from .pages import write_pages
from .people import add_people
from .records import Firm
from .supply import add_entries, add_supply
from .work import add_work

STEPS = (add_people, add_market, add_supply, add_work, write_letters, write_chatter, write_pages, write_diary)


@functools.lru_cache(maxsize=2)
def build_firm(seed: int = 16) -> Firm:
    """The firm. It is shared by all tasks of the process: copy before you change anything."""
    firm = Firm(seed)
    for step in STEPS:
        step(firm, Random(f"{seed}:{step.__name__}"))
        if step is add_supply:
            add_entries(firm)
    return firm


def digest_of(firm: Firm) -> str:
    """A hash of every record and every text."""
    whole = hashlib.sha256()
    for field in fields(firm):
        whole.update(repr(getattr(firm, field.name)).encode())
    return whole.hexdigest()
