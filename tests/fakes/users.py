"""Users for tests: played by a function of what the user has heard, which also tells how it ends."""

import re

from sandlot.core.trace import Text
from sandlot.core.types import Role
from sandlot.model.policy.player import Move, Player
from sandlot.model.policy.scripted import ScriptedPolicies
from sandlot.model.policy.user import ModelUsers

MARK = re.compile(r"END-[0-9A-F]{6}")


def mark_of(trace):
    """The word with which this user ends, as it was told."""
    return MARK.search(trace.nodes[0].message.text).group()


def policies_saying(say, name="scripted:said"):
    """Policies whose turn is `say(heard, mark, view)`: text, or a `Move`."""

    def play(moment):
        heard = [node.message.text for node in moment.trace.nodes if node.message.role is Role.USER]
        said = say(heard[-1], mark_of(moment.trace), moment.trace)
        return said if isinstance(said, Move) else Move((Text(said),) if said else ())

    return ScriptedPolicies(name, lambda _task, seed: Player(name, play, seed))


def users_saying(say):
    return ModelUsers(policies_saying(say))
