"""A machine that is reached through its console only. It runs inside the sandbox, from a pipe, so that no file holds its program.

The environment sends this text and a last line that calls `main`. Each connection gets a console of the kind that the config
names. What was settled there is written to `state`, sealed with a key that only this process and the grader have.
"""

import ctypes
import hashlib
import hmac
import json
import os
import socket
import threading

KEYS = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\r": "enter",
    "\n": "enter",
    " ": "space",
    "\t": "tab",
}
LOCK = threading.Lock()


class Console:
    """One connection: keys come in, text goes out."""

    def __init__(self, stream, config):
        self.stream, self.config, self.left = stream, config, ""

    def say(self, text):
        self.stream.sendall(text.replace("\n", "\r\n").encode())

    def char(self):
        if not self.left:
            data = self.stream.recv(4096)
            if not data:
                raise ConnectionError
            self.left = data.decode("utf-8", "replace")
        char, self.left = self.left[0], self.left[1:]
        return char

    def key(self):
        """A named key, or one character."""
        char = self.char()
        if char == "\x1b":
            char += self.char() + self.char()
        return KEYS.get(char, char)

    def line(self, prompt, echo=True):
        self.say(prompt)
        typed = ""
        while True:
            char = self.char()
            if char in "\r\n":
                self.say("\n")
                return typed.strip()
            if char in "\x7f\b":
                if typed and echo:
                    self.say("\b \b")
                typed = typed[:-1]
            elif char in "\x03\x04":
                raise ConnectionError
            elif char.isprintable():
                typed += char
                if echo:
                    self.say(char)

    def row(self):
        """A line of a program: without echo."""
        typed = ""
        while (char := self.char()) != "\n":
            typed += char
        return typed.strip()

    def save(self, state):
        text = json.dumps(state, sort_keys=True)
        seal = hmac.new(self.config["seal"].encode(), text.encode(), hashlib.sha256).hexdigest()
        with LOCK:
            with open(self.config["state"] + ".new", "w") as out:
                json.dump({"state": state, "seal": seal}, out)
            os.replace(self.config["state"] + ".new", self.config["state"])


# -- a switch ----------------------------------------------------------------------------------------------------------


def run_switch(console):
    """The command line of a network switch: modes, passwords, and a configuration that must be written to survive."""
    config = console.config
    running = json.loads(json.dumps(config["start"]))
    mode, port, vlan, name = "user", None, None, config["name"]
    signs = {"user": ">", "enabled": "#", "config": "(config)#", "if": "(config-if)#", "vlan": "(config-vlan)#"}
    console.say(f"\n{name} console. Type ? for help.\n")
    while True:
        words = console.line(f"{name}{signs[mode]} ").split()
        command = " ".join(words)
        if not words:
            continue
        if command in {"exit", "quit"}:
            if mode in {"user", "enabled"}:
                return
            mode = "config" if mode in {"if", "vlan"} else "enabled"
        elif command == "end" and mode in {"config", "if", "vlan"}:
            mode = "enabled"
        elif command == "?":
            console.say(HELP[mode])
        elif mode == "user" and command == "enable":
            mode = "enabled" if console.line("Password: ", echo=False) == config["password"] else "user"
            console.say("" if mode == "enabled" else "% Bad secret\n")
        elif mode != "user" and command == "show running":
            console.say(json.dumps(running, indent=1, sort_keys=True) + "\n")
        elif mode != "user" and command == "show interfaces":
            for number, each in sorted(running["ports"].items(), key=lambda pair: int(pair[0])):
                console.say(
                    f"port {number:>2}  vlan {each['vlan']:<4} {'up' if each['up'] else 'down':<5} {each['description']}\n"
                )
        elif mode == "enabled" and command == "configure":
            mode = "config"
        elif mode == "enabled" and command == "write":
            console.save(running)
            console.say("Configuration saved.\n")
        elif mode in {"config", "if", "vlan"} and words[0] == "vlan" and len(words) == 2 and words[1].isdecimal():
            vlan, mode = words[1], "vlan"
            running["vlans"].setdefault(vlan, "")
        elif mode in {"config", "if", "vlan"} and words[:2] == ["no", "vlan"] and len(words) == 3:
            running["vlans"].pop(words[2], None)
        elif mode in {"config", "if", "vlan"} and words[0] == "interface" and len(words) == 2 and words[1] in running["ports"]:
            port, mode = words[1], "if"
        elif mode == "vlan" and words[0] == "name" and len(words) == 2:
            running["vlans"][vlan] = words[1]
        elif mode == "if" and words[:2] == ["access", "vlan"] and len(words) == 3:
            if words[2] in running["vlans"]:
                running["ports"][port]["vlan"] = int(words[2])
            else:
                console.say("% No such VLAN\n")
        elif mode == "if" and command in {"shutdown", "no shutdown"}:
            running["ports"][port]["up"] = command != "shutdown"
        elif mode == "if" and words[0] == "description":
            running["ports"][port]["description"] = " ".join(words[1:])
        else:
            console.say("% Unknown command\n")


_LEAVE = "  exit, end           leave this mode\n"
HELP = {
    "user": "  enable              privileged mode\n  exit\n",
    "enabled": "  show running\n  show interfaces\n  configure           change the configuration\n"
    "  write               save it; without this a change is lost\n  exit\n",
    "config": "  vlan NUMBER\n  no vlan NUMBER\n  interface NUMBER\n" + _LEAVE,
    "if": "  access vlan NUMBER\n  shutdown\n  no shutdown\n  description TEXT\n" + _LEAVE,
    "vlan": "  name WORD\n" + _LEAVE,
}


# -- an installer ------------------------------------------------------------------------------------------------------


def run_installer(console):
    """A full-screen installer: parts to tick, a size to type, a zone to pick, and a last question whose default is no."""
    config = console.config
    ticked = dict.fromkeys(config["parts"], False) | dict.fromkeys(config["ticked"], True)
    names = list(config["parts"])
    console.say("\x1b[?1049h")
    try:
        place = 0
        while True:
            rows = [f"{'>' if at == place else ' '} [{'x' if ticked[name] else ' '}] {name}" for at, name in enumerate(names)]
            draw(console, "Parts to install", rows, "Up, Down: move   Space: tick   Enter: next")
            key = console.key()
            place = (place + {"down": 1, "up": -1}.get(key, 0)) % len(names)
            if key == "space":
                ticked[names[place]] = not ticked[names[place]]
            elif key == "enter":
                break
            elif key in {"\x03", "q"}:
                return
        draw(console, "Size of the data volume", [f"Whole GiB, {config['least']} to {config['most']}."], "")
        size = console.line("\x1b[6;4HSize: ")
        if not size.isdecimal() or not config["least"] <= int(size) <= config["most"]:
            console.say("\nThat is not a size that fits. Nothing was installed. Press Enter.")
            console.char()
            return
        zone = choose(console, "Time zone", config["zones"])
        sure = choose(console, "Install now? This cannot be undone.", ["Cancel", "Install"])
        if sure == "Install":
            parts = sorted(name for name in names if ticked[name])
            console.save({"parts": parts, "size": int(size), "zone": zone})
            draw(console, "Done", ["The machine was installed."], "Press Enter")
            console.char()
    finally:
        console.say("\x1b[?1049l")


def choose(console, title, names):
    place = 0
    while True:
        first = max(0, min(place - 5, len(names) - 10))
        rows = [f"{'>' if at == place else ' '} {names[at]}" for at in range(first, min(first + 10, len(names)))]
        draw(console, title, rows, "Up, Down: move   Enter: choose")
        key = console.key()
        place = (place + {"down": 1, "up": -1}.get(key, 0)) % len(names)
        if key == "enter":
            return names[place]
        if key == "\x03":
            raise ConnectionError


def draw(console, title, rows, foot):
    drawn = [f"\x1b[2J\x1b[2;4H\x1b[1m{title}\x1b[0m"]
    drawn += [f"\x1b[{at + 4};4H{row}" for at, row in enumerate(rows)]
    console.say("".join(drawn) + f"\x1b[20;4H{foot}")


# -- a log viewer ------------------------------------------------------------------------------------------------------


def run_viewer(console):
    """Pages of a long log, with search; there is no other way to read it."""
    rows, top, page, note = console.config["rows"], 0, 18, ""
    console.say("\x1b[?1049h")
    try:
        while True:
            top = max(0, min(top, len(rows) - page))
            drawn = "".join(f"\x1b[{at + 1};1H{row[:78]}" for at, row in enumerate(rows[top : top + page]))
            status = f"rows {top + 1} to {min(top + page, len(rows))} of {len(rows)}  {note}"
            console.say(
                f"\x1b[2J{drawn}\x1b[20;1H\x1b[7m{status}\x1b[0m\x1b[21;1HSpace, b: page   / TEXT: search   n: next   q: quit"
            )
            key, note = console.key(), ""
            if key in {"q", "\x03"}:
                return
            if key in {"space", "down", "up", "b"}:
                top += {"space": page, "b": -page, "down": 1, "up": -1}[key]
            if key == "/":
                console.config["sought"] = console.line("\x1b[22;1H/")
            if key in {"/", "n"}:
                start = top + (key == "n")
                found = [at for at in range(start, len(rows)) if console.config.get("sought", "\0") in rows[at]]
                top, note = (found[0], "") if found else (top, "not found below")
    finally:
        console.say("\x1b[?1049l")


# -- an account desk ---------------------------------------------------------------------------------------------------


def run_accounts(console):
    """A login with a password that has expired, rules for the new one, and a menu behind it."""
    config = console.config
    state = {"changed": False, "unlocked": [], "locked": []}
    for _ in range(3):
        login = console.line("login: ")
        if login == config["login"] and console.line("Password: ", echo=False) == config["password"]:
            break
        console.say("Login incorrect\n")
    else:
        return
    console.say(
        f"Your password has expired.\nThe new one has {config['length']} characters or more, with {config['digits']} digits "
    )
    console.say(f"or more and one of {config['marks']}, and does not contain your login.\n")
    new = console.line("New password: ", echo=False)
    fits = len(new) >= config["length"] and sum(char.isdigit() for char in new) >= config["digits"]
    if not fits or not set(new) & set(config["marks"]) or config["login"] in new:
        console.say("It does not meet the rules. Goodbye.\n")
        return
    if console.line("New password again: ", echo=False) != new:
        console.say("They differ. Goodbye.\n")
        return
    state["changed"] = True
    while True:
        console.say("\n1) list accounts  2) unlock  3) lock  4) save and leave\n")
        choice = console.line("choice: ")
        if choice == "1":
            for name, (locked, since) in config["accounts"].items():
                known = (locked or name in state["locked"]) and name not in state["unlocked"]
                console.say(f"  {name:<12} {'locked' if known else 'open':<7} last seen {since}\n")
        elif choice in {"2", "3"}:
            name = console.line("account: ")
            if name in config["accounts"]:
                mine, other = ("unlocked", "locked") if choice == "2" else ("locked", "unlocked")
                state[mine] = sorted({*state[mine], name})
                state[other] = [each for each in state[other] if each != name]
            else:
                console.say("No such account.\n")
        elif choice == "4":
            console.save(state)
            console.say("Saved.\n")
            return


# -- another machine ---------------------------------------------------------------------------------------------------


def run_peer(console):
    """A second machine: requests of one line, `VERB ARGUMENT`, answered until the line is closed. Its files are in memory."""
    config = console.config
    with LOCK:
        files, service = config["files"], config["service"]
    while True:
        verb, _, rest = console.row().partition(" ")
        path, _, text = rest.partition(" ")
        if verb == "list":
            answer = "\n".join(sorted(files))
        elif verb == "get":
            answer = files.get(path, f"error: no file {path}")
        elif verb == "put" and path in files:
            files[path] = text.replace("\\n", "\n")
            answer = "stored"
        elif verb == "restart":
            service["config"] = dict(line.split("=", 1) for line in files[service["file"]].split("\n") if "=" in line)
            service["restarts"] += 1
            answer = "restarted"
        elif verb == "status":
            answer = json.dumps(service["config"], sort_keys=True)
        elif verb == "quit":
            return
        else:
            answer = "error: verbs are list, get PATH, put PATH TEXT (line breaks as \\n), restart, status, quit"
        console.save({"files": files, "service": service})
        console.say(answer + "\n.\n")


KINDS = {"switch": run_switch, "installer": run_installer, "viewer": run_viewer, "accounts": run_accounts, "peer": run_peer}


def serve(stream, config):
    try:
        with stream:
            KINDS[config["kind"]](Console(stream, config))
    except (OSError, ConnectionError):
        pass


def main(config):
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # its memory cannot be read by others
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", config["port"]))
    server.listen(8)
    while True:
        stream, _ = server.accept()
        threading.Thread(target=serve, args=(stream, config), daemon=True).start()
