"""An image's defaults for commands."""

from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.defaults import CommandDefaults, command_defaults


def test_what_an_image_says_holds_where_a_command_says_nothing():
    said = command_defaults(["PATH=/opt/bin", "COLOUR=blue"], "node:node", "app")
    assert said == CommandDefaults({"PATH": "/opt/bin", "COLOUR": "blue"}, "node", "/app")
    plain = said.apply(Command(argv=("x",)))
    assert (plain.env, plain.user, plain.cwd) == ({"PATH": "/opt/bin", "COLOUR": "blue"}, "node", "/app")
    own = said.apply(Command(argv=("x",), env={"COLOUR": "red"}, user="root", cwd="/"))
    assert (own.env, own.user, own.cwd) == ({"PATH": "/opt/bin", "COLOUR": "red"}, "root", "/")


def test_numbers_of_users_and_groups_are_kept_and_nothing_is_root_in_the_root():
    assert command_defaults(None, "1000:1001", None).user == "1000:1001"
    assert command_defaults(None, "1000:staff", None).user == "1000"
    assert command_defaults(None, "", "") == command_defaults(None, None, None) == CommandDefaults()


def test_what_no_command_could_start_with_is_passed_over():
    assert command_defaults(["no equals", "=odd", "NUL=\0", "GOOD=1"], "a\0b", "/a\0b") == CommandDefaults({"GOOD": "1"})
    assert command_defaults([f"BIG{n}={'x' * 60_000}" for n in range(3)], None, None) == CommandDefaults()
    assert command_defaults(None, None, "../../etc").folder == "/etc"


@given(st.lists(st.text()), st.text(), st.text())
def test_whatever_an_image_says_is_something_to_start_with(env, user, folder):
    said = command_defaults(env, user, folder)
    assert said.user
    assert said.folder.startswith("/")
