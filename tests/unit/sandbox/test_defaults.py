"""What an image wants its commands to start with."""

from hypothesis import given
from hypothesis import strategies as st

from sandlot.core.ports.sandbox import Command
from sandlot.sandbox.defaults import Surroundings, surroundings_of


def test_what_an_image_says_holds_where_a_command_says_nothing():
    said = surroundings_of(["PATH=/opt/bin", "COLOUR=blue"], "node:node", "app")
    assert said == Surroundings({"PATH": "/opt/bin", "COLOUR": "blue"}, "node", "/app")
    plain = said.around(Command(argv=("x",)))
    assert (plain.env, plain.user, plain.cwd) == ({"PATH": "/opt/bin", "COLOUR": "blue"}, "node", "/app")
    own = said.around(Command(argv=("x",), env={"COLOUR": "red"}, user="root", cwd="/"))
    assert (own.env, own.user, own.cwd) == ({"PATH": "/opt/bin", "COLOUR": "red"}, "root", "/")


def test_numbers_of_users_and_groups_are_kept_and_nothing_is_root_in_the_root():
    assert surroundings_of(None, "1000:1001", None).user == "1000:1001"
    assert surroundings_of(None, "1000:staff", None).user == "1000"
    assert surroundings_of(None, "", "") == surroundings_of(None, None, None) == Surroundings()


def test_what_no_command_could_start_with_is_passed_over():
    assert surroundings_of(["no equals", "=odd", "NUL=\0", "GOOD=1"], "a\0b", "/a\0b") == Surroundings({"GOOD": "1"})
    assert surroundings_of([f"BIG{n}={'x' * 60_000}" for n in range(3)], None, None) == Surroundings()
    assert surroundings_of(None, None, "../../etc").folder == "/etc"


@given(st.lists(st.text()), st.text(), st.text())
def test_whatever_an_image_says_is_something_to_start_with(env, user, folder):
    said = surroundings_of(env, user, folder)
    assert said.user
    assert said.folder.startswith("/")
