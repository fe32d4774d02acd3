# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
"""Runs inside a sandbox, never on the host: reads the accessibility trees of the applications over their D-Bus (AT-SPI).

One JSON request per line of standard input, one line as its answer. Only the numbers of elements are kept between requests, so
nothing is out of date.

Every call has a limit, and so has a whole tree: an application that hangs costs one such wait, and is named in the answer.
"""

import json
import os
import sys
import time

from gi.repository import Gio, GLib

PREFIX = "org.a11y.atspi"
ROOT = "/org/a11y/atspi/accessible/root"
CALL_MS = 1500
MAX_CHILDREN = 600
MAX_DEPTH = 60
MAX_TEXT = 4000
MAX_NAME = 400
ACTIVE, CHECKED, EDITABLE, EXPANDED, FOCUSED, SELECTED, SENSITIVE, SHOWING, PRESSED = 1, 4, 7, 10, 12, 23, 24, 25, 20
MULTI_LINE, INDETERMINATE = 17, 32
STATES = {
    CHECKED: "checked",
    FOCUSED: "focused",
    SELECTED: "selected",
    EXPANDED: "expanded",
    PRESSED: "pressed",
    ACTIVE: "active",
}
STATES[INDETERMINATE] = "mixed"
TEXT_ROLES = {"text", "entry", "terminal", "password text", "document text", "paragraph", "spin button"}
VALUE_ROLES = {"spin button", "slider", "progress bar", "scroll bar"}
SKIPPED = {"scroll bar", "separator"}


class _Reader:
    """The accessibility bus, and the numbers given to elements so far."""

    def __init__(self):
        session = Gio.bus_get_sync(Gio.BusType.SESSION, None)
        reply = session.call_sync(
            "org.a11y.Bus", "/org/a11y/bus", "org.a11y.Bus", "GetAddress", None, GLib.VariantType("(s)"), 0, 10_000, None
        )
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.bus = Gio.DBusConnection.new_for_address_sync(reply.unpack()[0], flags, None, None)
        self.first = int(os.environ.get("FIRST_NUMBER", "1"))
        self.numbers, self.places = {}, []

    def call(self, place, interface, method, signature="", *values, most_ms=CALL_MS):
        arguments = GLib.Variant(f"({signature})", values) if signature else None
        name = interface if interface.startswith("org.") else f"{PREFIX}.{interface}"
        return self.bus.call_sync(place[0], place[1], name, method, arguments, None, 0, most_ms, None).unpack()

    def fetch(self, place, interface, name):
        return self.call(place, "org.freedesktop.DBus.Properties", "Get", "ss", f"{PREFIX}.{interface}", name)[0]

    def children(self, place):
        return [tuple(child) for child in self.call(place, "Accessible", "GetChildren")[0]]

    def states(self, place):
        low, high = self.call(place, "Accessible", "GetState")[0]
        return low | high << 32

    def pid(self, place):
        bus = ("org.freedesktop.DBus", "/org/freedesktop/DBus")
        return self.call(bus, "org.freedesktop.DBus", "GetConnectionUnixProcessID", "s", place[0])[0]

    def number(self, place):
        if place not in self.numbers:
            self.numbers[place] = self.first + len(self.places)
            self.places.append(place)
        return self.numbers[place]

    # -- requests ------------------------------------------------------------------------------------------------------

    def do_tree(self, pid, number, most_nodes, most_s_inside):
        """Elements that are on the screen: of one application (`pid`), below one element (`number`), or all."""
        walk = _Walk(self, most_nodes, time.monotonic() + most_s_inside)
        if number:
            try:
                walk.visit(self.place(number), 0)
            except (GLib.Error, KeyError):
                walk.notes.append("the element is gone")
            return walk.answer()
        for place in self.children((f"{PREFIX}.Registry", ROOT)):
            try:
                if pid and self.pid(place) != pid:
                    continue
                for window in self.children(place):
                    walk.visit(window, 0)
            except GLib.Error as error:
                walk.trouble(place, error)
        return walk.answer()

    def do_where(self, number):
        """Where an element is on the screen now, and whether it can be used."""
        try:
            place = self.place(number)
            states = self.states(place)
            box = list(self.call(place, "Component", "GetExtents", "u", 0)[0])
            return {
                "box": box,
                "showing": bool(states >> SHOWING & 1),
                "sensitive": bool(states >> SENSITIVE & 1),
                "pid": self.pid(place),
            }
        except (GLib.Error, KeyError):
            return {"gone": True}

    def place(self, number):
        """An element by its number; `KeyError` if it was given by an earlier reader, which hung and was replaced."""
        if not 0 <= number - self.first < len(self.places):
            raise KeyError(number)
        return self.places[number - self.first]


class _Walk:
    """One walk over elements, within its limits."""

    def __init__(self, reader, most_nodes, end):
        self.reader, self.left, self.end = reader, most_nodes, end
        self.nodes, self.notes = [], []

    def answer(self):
        return {"nodes": self.nodes, "notes": self.notes[:20]}

    def trouble(self, place, error):
        if error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.TIMED_OUT):
            self.notes.append(f"an application does not answer ({place[0]})")

    def visit(self, place, depth):
        if self.left <= 0 or time.monotonic() > self.end or depth > MAX_DEPTH:
            if "the tree is larger than what is shown" not in self.notes:
                self.notes.append("the tree is larger than what is shown")
            return
        reader = self.reader
        try:
            states = reader.states(place)
            if not states >> SHOWING & 1:
                return
            role = reader.call(place, "Accessible", "GetRoleName")[0]
            if role in SKIPPED:
                return
            name = reader.fetch(place, "Accessible", "Name")
            node = {"depth": depth, "number": reader.number(place), "role": role, "name": str(name)[:MAX_NAME]}
            node["states"] = [word for bit, word in STATES.items() if states >> bit & 1]
            if not states >> SENSITIVE & 1:
                node["states"].append("disabled")
            self.add_value(place, role, node)
            self.left -= 1
            self.nodes.append(node)
            children = reader.children(place)
        except GLib.Error as error:
            self.trouble(place, error)
            if error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.TIMED_OUT):
                raise
            return
        if len(children) > MAX_CHILDREN:
            self.notes.append(f"{role} {node['name'][:40]!r} has {len(children)} parts; {MAX_CHILDREN} were read")
        for child in children[:MAX_CHILDREN]:
            self.visit(child, depth + 1)

    def add_value(self, place, role, node):
        try:
            if role in TEXT_ROLES:
                length = self.reader.fetch(place, "Text", "CharacterCount")
                node["text"] = self.reader.call(place, "Text", "GetText", "ii", 0, min(length, MAX_TEXT))[0]
                node["length"] = length
            elif role in VALUE_ROLES:
                node["text"] = f"{self.reader.fetch(place, 'Value', 'CurrentValue'):g}"
        except GLib.Error as error:
            if error.matches(Gio.io_error_quark(), Gio.IOErrorEnum.TIMED_OUT):
                raise


def main():
    reader = None
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"id": request.pop("id")}
        try:
            reader = reader or _Reader()
            answer["result"] = getattr(reader, f"do_{request.pop('do')}")(**request)
        except GLib.Error as error:
            answer["error"] = f"the applications did not answer: {error.message[:300]}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
