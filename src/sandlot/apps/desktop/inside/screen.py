# pyright: basic, reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
"""Runs inside a sandbox, never on the host: the X server, the window manager, screenshots, the mouse, the keyboard, windows.

One JSON request per line of standard input, one line as its answer.
"""

import base64
import json
import os
import struct
import subprocess
import sys
import time
import zlib

from Xlib import XK, X, display, error, protocol

START_S = 20
TICK_S = 0.03
NUM_QUIET = 3
QUIET_NS = 1_500_000
MAX_WINDOWS = 60
MAX_TITLE = 300
KEY_BATCH = 20


started = []


class _Refused(Exception):
    """A request that cannot be done, in words for the agent."""


class _Server:
    """The X server, as its one user has it."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        run = os.environ["XDG_RUNTIME_DIR"]
        os.makedirs(run, mode=0o700, exist_ok=True)
        bus = f"{run}/bus"
        start(["dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address=unix:path={bus}"])
        server = ["Xvfb", os.environ["DISPLAY"], "-screen", "0", f"{width}x{height}x24", "-nolisten", "tcp", "-nolock", "-br"]
        start([*server, "-noreset", "-ac", "-extension", "GLX"])
        wait_until(lambda: os.path.exists(bus), "the session bus did not start")
        start(["/usr/libexec/at-spi-bus-launcher", "--launch-immediately"])
        self.display = wait_until(connected, "the X server did not start")
        self.root = self.display.screen().root
        self.root.change_attributes(background_pixel=0x4A6A8A)
        self.root.clear_area(0, 0, width, height)
        start(["openbox"])
        wait_until(lambda: self.property(self.root, "_NET_SUPPORTING_WM_CHECK"), "the window manager did not start")
        self.try_window()
        os.unlink(f"/tmp/.X{os.environ['DISPLAY'][1:]}-lock")  # has the number of a process: not the same in every start
        self.codes, self.spare = {}, []
        self.read_keys()

    def try_window(self):
        """Show a window until the manager takes it: one that is shown while the manager still starts can be lost for good."""
        end = time.monotonic() + START_S
        taken = False
        while not taken:
            if time.monotonic() > end:
                raise _Refused(f"the window manager took no window within {START_S} s")
            window = self.root.create_window(0, 0, 10, 10, 0, X.CopyFromParent)
            window.map()
            self.display.sync()
            for _ in range(50):
                taken = taken or window.id in (self.property(self.root, "_NET_CLIENT_LIST") or [])
                time.sleep(0 if taken else 0.01)
            window.destroy()
            self.display.sync()
        gone = lambda: not len(self.property(self.root, "_NET_CLIENT_LIST") or [])  # noqa: E731
        wait_until(gone, "the window manager kept a window that was closed")

    # -- the keyboard --------------------------------------------------------------------------------------------------

    def read_keys(self):
        """Which key gives which sign, and the keys that give none yet."""
        first = self.display.display.info.min_keycode
        table = self.display.get_keyboard_mapping(first, self.display.display.info.max_keycode - first + 1)
        for code, signs in enumerate(table, first):
            if not any(signs):
                self.spare.append(code)
            for level in (1, 0):
                if len(signs) > level and signs[level]:
                    self.codes.setdefault(signs[level], (code, level))
        for code, signs in enumerate(table, first):  # a key that needs no shift is better
            if signs and signs[0]:
                self.codes[signs[0]] = (code, 0)

    def teach(self, symbols):
        """Give signs that the keyboard lacks to keys that are free; the oldest that are not needed now are given up."""
        new = [symbol for symbol in dict.fromkeys(symbols) if symbol not in self.codes]
        needed = {self.codes[symbol][0] for symbol in symbols if symbol in self.codes}
        free = [code for code in self.spare if code not in needed]
        if len(new) > len(free):
            count = len(new) + len(self.spare) - len(free)
            raise _Refused(f"the text has {count} different characters that are not on the keyboard; type it in parts")
        for symbol, code in zip(new, free, strict=False):
            self.spare.remove(code)
            self.spare.append(code)
            self.codes = {known: at for known, at in self.codes.items() if at[0] != code}
            self.display.change_keyboard_mapping(code, [(symbol, symbol)])
            self.codes[symbol] = (code, 0)
        if new:
            self.display.sync()
            time.sleep(0.1)  # applications read the new keyboard first
            self.settle(1.0)

    def stroke(self, symbol, held=()):
        code, level = self.codes[symbol]
        shift = self.codes[XK.XK_Shift_L][0]
        held = [self.codes[each][0] for each in held] + ([shift] if level else [])
        for key in held:
            self.display.xtest_fake_input(X.KeyPress, key)
        self.display.xtest_fake_input(X.KeyPress, code)
        self.display.xtest_fake_input(X.KeyRelease, code)
        for key in reversed(held):
            self.display.xtest_fake_input(X.KeyRelease, key)
        self.display.sync()

    def do_type(self, text):
        signs = {"\n": XK.XK_Return, "\t": XK.XK_Tab}
        symbols = [signs.get(sign) or symbol_of(sign) for sign in text]
        self.teach(dict.fromkeys(symbols))
        for number, symbol in enumerate(symbols, 1):
            self.stroke(symbol)
            if number % KEY_BATCH == 0:
                self.settle(0.5)

    def do_press(self, keys, held):
        symbols = [named(name) for name in keys]
        self.teach([*symbols, *map(named, held)])
        for symbol in symbols:
            self.stroke(symbol, [named(name) for name in held])

    # -- the mouse -----------------------------------------------------------------------------------------------------

    def do_move(self, x, y):
        self.display.xtest_fake_input(X.MotionNotify, 0, x=x, y=y)
        self.display.sync()

    def do_click(self, x, y, button, count, held):
        self.do_move(x, y)
        keys = [self.codes[named(name)][0] for name in held]
        for key in keys:
            self.display.xtest_fake_input(X.KeyPress, key)
        for _ in range(count):
            self.display.xtest_fake_input(X.ButtonPress, button)
            self.display.xtest_fake_input(X.ButtonRelease, button)
        for key in reversed(keys):
            self.display.xtest_fake_input(X.KeyRelease, key)
        self.display.sync()

    def do_drag(self, x, y, to_x, to_y):
        self.do_move(x, y)
        self.display.xtest_fake_input(X.ButtonPress, 1)
        self.display.sync()
        for step in range(1, 11):  # applications begin a drag after a few small moves
            self.do_move(x + (to_x - x) * step // 10, y + (to_y - y) * step // 10)
            time.sleep(0.01)
        self.settle(0.5)
        self.display.xtest_fake_input(X.ButtonRelease, 1)
        self.display.sync()

    # -- what is on the screen -----------------------------------------------------------------------------------------

    def do_shot(self):
        data = self.root.get_image(0, 0, self.width, self.height, X.ZPixmap, 0xFFFFFFFF).data
        pixels = bytearray(self.width * self.height * 3)
        for place in range(3):
            pixels[place::3] = data[2 - place :: 4]
        wide = self.width * 3
        rows = b"".join(b"\0" + pixels[place : place + wide] for place in range(0, len(pixels), wide))
        head = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b"")]
        whole = b"".join(
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
        )
        return {"png": base64.b64encode(b"\x89PNG\r\n\x1a\n" + whole).decode()}

    def do_windows(self):
        active = (self.property(self.root, "_NET_ACTIVE_WINDOW") or [0])[0]
        found = []
        for number in reversed((self.property(self.root, "_NET_CLIENT_LIST_STACKING") or [])[-MAX_WINDOWS:]):
            window = self.display.create_resource_object("window", number)
            try:
                size = window.get_geometry()
                place = self.root.translate_coords(window, 0, 0)
                found.append(
                    {
                        "id": number,
                        "title": self.title(window),
                        "pid": int((self.property(window, "_NET_WM_PID") or [0])[0]),
                        "box": [place.x, place.y, size.width, size.height],
                        "active": number == active,
                        "hidden": self.atom("_NET_WM_STATE_HIDDEN") in (self.property(window, "_NET_WM_STATE") or []),
                    }
                )
            except error.XError:  # it closed meanwhile
                continue
        return {"windows": found}

    def do_window(self, window, action):
        found = self.display.create_resource_object("window", window)
        messages = {
            "focus": ("_NET_ACTIVE_WINDOW", [2, X.CurrentTime, 0, 0, 0]),
            "close": ("_NET_CLOSE_WINDOW", [X.CurrentTime, 2, 0, 0, 0]),
            "maximize": (
                "_NET_WM_STATE",
                [1, self.atom("_NET_WM_STATE_MAXIMIZED_VERT"), self.atom("_NET_WM_STATE_MAXIMIZED_HORZ"), 2, 0],
            ),
        }
        name, data = messages[action]
        event = protocol.event.ClientMessage(window=found, client_type=self.atom(name), data=(32, data))
        self.root.send_event(event, event_mask=X.SubstructureRedirectMask | X.SubstructureNotifyMask)
        self.display.sync()

    def do_at(self, x, y):
        """The process whose window is at a place; 0 for the background or an unknown one."""
        window, pid, title = self.root, 0, ""
        for _ in range(8):
            child = window.translate_coords(self.root, x, y).child
            if child == X.NONE:
                break
            window = child
            pid = int((self.property(window, "_NET_WM_PID") or [pid])[0])
            title = self.title(window) or title
        return {"pid": pid, "title": title}

    def do_open(self, argv):
        start(argv, cwd=os.environ["HOME"])

    def do_settle(self, most_s_inside):
        return {"quiet": self.settle(most_s_inside)}

    def settle(self, most_s):
        """Wait until the programs of the desktop have nothing to do; False if they still work after `most_s`."""
        self.display.sync()
        end = time.monotonic() + most_s
        before, num_quiet = work(), 0
        while num_quiet < NUM_QUIET:
            if time.monotonic() > end:
                return False
            time.sleep(TICK_S)
            now = work()
            num_quiet = num_quiet + 1 if now[0] - before[0] < QUIET_NS and not now[1] else 0
            before = now
        return True

    # -- small parts ---------------------------------------------------------------------------------------------------

    def atom(self, name):
        return self.display.intern_atom(name)

    def property(self, window, name):
        try:
            found = window.get_full_property(self.atom(name), X.AnyPropertyType)
        except error.XError:
            return None
        return found.value if found is not None else None

    def title(self, window):
        value = self.property(window, "_NET_WM_NAME") or self.property(window, "WM_NAME") or b""
        return (value.decode(errors="replace") if isinstance(value, bytes) else str(value))[:MAX_TITLE]


def start(argv, cwd=None):
    """Start a program of the desktop; what it says goes to standard error."""
    started.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=2, cwd=cwd, start_new_session=True))


def wait_until(find, failure):
    end = time.monotonic() + START_S
    while not (found := find()):
        if time.monotonic() > end:
            raise _Refused(f"{failure} within {START_S} s")
        time.sleep(0.005)
    return found


def connected():
    try:
        return display.Display()
    except (error.DisplayConnectionError, error.ConnectionClosedError, OSError):
        return None


def work():
    """Nanoseconds that all other programs of this user have run or waited for a processor, and whether one runs now."""
    total, runs, own = 0, False, os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid != os.getuid():
                continue
            for thread in os.listdir(f"/proc/{name}/task"):
                ran, waited, _ = open(f"/proc/{name}/task/{thread}/schedstat").read().split()
                total += int(ran) + int(waited)
                runs = runs or open(f"/proc/{name}/task/{thread}/stat").read().rpartition(")")[2].split()[0] in "RD"
        except (OSError, ValueError):  # it ended meanwhile
            continue
    return total, runs


def symbol_of(sign):
    return ord(sign) if ord(sign) < 256 else 0x01000000 | ord(sign)


def named(name):
    symbol = XK.string_to_keysym(name) or (symbol_of(name) if len(name) == 1 else 0)
    if not symbol:
        raise _Refused(f"there is no key {name!r}")
    return symbol


def main():
    XK.load_keysym_group("xf86")
    screen = None
    for line in sys.stdin:
        started[:] = [program for program in started if program.poll() is None]
        request = json.loads(line)
        answer = {"id": request.pop("id")}
        try:
            do = request.pop("do")
            if do == "start":
                screen = _Server(**request)
                answer["result"] = {}
            else:
                answer["result"] = getattr(screen, f"do_{do}")(**request) or {}
        except _Refused as refused:
            answer["error"] = str(refused)
        except (error.XError, OSError) as failed:
            answer["error"] = f"the X server refused it: {type(failed).__name__}: {str(failed)[:300]}"
        except Exception as failed:  # noqa: BLE001 - one request must not end the desktop
            answer["error"] = f"it cannot be done: {type(failed).__name__}: {str(failed)[:300]}"
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
