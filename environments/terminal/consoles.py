"""Machines that are reached through a console: a switch, an installer, a log viewer, an account desk, and a second machine.

None of them has a file to edit: their program comes through a pipe and keeps its state in memory (`appliance.py`). What was
settled there is left in a file sealed with a key that is not in the sandbox.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

from .job import PEOPLE, WORDS, Job, lines, token

PROGRAM = Path(__file__).with_name("appliance.py").read_text()
CLIENT = Path(__file__).with_name("console.py").read_text()
PORT = 2300
STATE = "/var/lib/console/state"
START = """chmod 755 /usr/local/bin/console && mkdir -p /var/lib/console
exec 3<&0; python3 - <&3 >/dev/null 2>&1 &"""
HOW = "The tool `terminal` has a terminal for it; its console is opened with `console {port}`."
SWITCH = """The switch {name} at the end of the serial line needs a change. {how} The enable password is `{password}`.

- Make VLAN {vlan} with the name {label}.
- Put ports {ports} into it, with the description `{text}`, and switch them on.
- Port {down} goes to a room that is being rebuilt: switch it off.
- Nothing else changes, and the change must survive a power cut."""
INSTALL = """A new machine waits in its installer. {how} Install it:

- parts: {parts}, and no others;
- a data volume of {size} GiB;
- the time zone {zone}."""
VIEW = """The controller of the {name} line keeps its log to itself; the only way to read it is its viewer. {how} Write two
lines to /out/answer.txt: the batch number of the record with the fault code {code}, and the operator named in the record
`shift handed over` that follows it first."""
ACCOUNTS = """The account desk of {name} is on the console. {how} Log in as `{login}` with the password `{password}`; it has
expired, so set a new one by the rules shown and write the new password to /out/password.txt. Then unlock the accounts of
{wanted}, and lock every open account that was last seen before {before}. Save before you leave."""
PEER = """The machine {name} ran into trouble after a change, and only its maintenance port is left: TCP port {port} of this
machine is forwarded to it. A request is one line; every answer ends with a line that has only a dot (`help` lists the
requests). Its service reads {file}. Bring the service back to what {golden} on this machine says, but keep {name}'s own
`{own}`; leave the other settings of {name} that are not in {golden} as they are, and restart the service once the file is
right. Then write to /out/peer.json what `status` says. Do not touch its other files."""


def appliance(kind: str, rng: Random, port: int = PORT, **config: Any) -> dict[str, Any]:
    """What a job needs to have such a machine: files, script, stdin, and the key of its seal."""
    seal = token(rng, 32)
    whole = {"kind": kind, "port": port, "state": STATE, "seal": seal, **config}
    return {
        "files": {"/usr/local/bin/console": CLIENT},
        "script": START,
        "stdin": f"{PROGRAM}\nmain(json.loads({json.dumps(whole)!r}))\n",
        "seal": seal,
        "port": port,
    }


def job(prompt: str, machine: dict[str, Any], wants: list[dict[str, Any]], solution: list[Any], **more: Any) -> Job:
    files = machine["files"] | more.pop("files", {})
    return Job(
        prompt=prompt,
        files=files,
        script=machine["script"],
        stdin=machine["stdin"],
        port=machine["port"],
        wants=wants,
        solution=solution,
        **more,
    )


def sealed(machine: dict[str, Any], name: str, value: dict[str, Any]) -> dict[str, Any]:
    """Wanted: that these parts of the state are so. Parts are named `a/b/c`."""
    return {"kind": "sealed", "path": STATE, "seal": machine["seal"], "name": name, "value": value}


def typed(text: str, wait_for: str = "", keys: list[str] | None = None) -> dict[str, Any]:
    return (
        {"text": text, "keys": keys or [], "wait_for": wait_for, "wait_s": 30} if wait_for else {"text": text, "keys": keys or []}
    )


def switch_change(rng: Random) -> Job:
    name, password = f"sw-{rng.choice(WORDS)}", token(rng, 8)
    ports = {
        str(number): {"vlan": rng.choice([1, 10]), "up": rng.random() < 0.7, "description": rng.choice([*WORDS, ""])}
        for number in range(1, 13)
    }
    vlan, label, text = rng.randrange(20, 200), rng.choice(WORDS), f"room {rng.randrange(100, 400)}"
    *chosen, down = rng.sample(sorted(ports, key=int), 4)
    chosen.sort(key=int)
    ports[down]["up"] = True
    for number in chosen:
        ports[number]["up"] = number != chosen[0] and ports[number]["up"]
    start = {"vlans": {"1": "default", "10": "office"}, "ports": ports}
    machine = appliance("switch", rng, name=name, password=password, start=start)
    after = {number: dict(port) for number, port in ports.items()}
    for number in chosen:
        after[number] = {"vlan": vlan, "up": True, "description": text}
    after[down]["up"] = False
    rest = {f"ports/{number}": after[number] for number in ports if number not in {*chosen, down}}
    wants = [
        sealed(machine, "the VLAN", {f"vlans/{vlan}": label, "vlans/1": "default", "vlans/10": "office"}),
        sealed(machine, "its ports", {f"ports/{number}": after[number] for number in chosen}),
        sealed(machine, "the port that is off", {f"ports/{down}": after[down]}),
        sealed(machine, "everything", {f"vlans/{vlan}": label, f"ports/{down}": after[down], **rest}),
    ]
    ask = f"{name}(config-if)#"
    steps = [typed(f"console {PORT}\n", f"{name}>"), typed("enable\n", "Password:"), typed(f"{password}\n", f"{name}#")]
    steps += [
        typed("configure\n", "(config)#"),
        typed(f"vlan {vlan}\n", "(config-vlan)#"),
        typed(f"name {label}\n", "(config-vlan)#"),
    ]
    for number in chosen:
        steps += [typed(f"interface {number}\n", ask), typed(f"access vlan {vlan}\n", ask)]
        steps += [typed(f"description {text}\n", ask), typed("no shutdown\n", ask)]
    steps += [typed(f"interface {down}\n", ask), typed("shutdown\n", ask), typed("end\n", f"{name}#")]
    steps += [typed("show interfaces\n", "port 12"), typed("write\n", "saved"), typed("exit\n", "/#")]
    how = HOW.format(port=PORT)
    listed = ", ".join(chosen[:-1]) + f" and {chosen[-1]}"
    prompt = SWITCH.format(name=name, how=how, password=password, vlan=vlan, label=label, ports=listed, text=text, down=down)
    return job(prompt, machine, wants, steps)


def guided_install(rng: Random) -> Job:
    parts = sorted(rng.sample(["database", "mail", "monitoring", "printing", "shell access", "web server", "backup agent"], 6))
    wanted = sorted(rng.sample(parts, 3))
    ticked = sorted({*rng.sample(parts, 2), next(part for part in parts if part not in wanted)})
    places = (
        "Accra",
        "Bogota",
        "Dakar",
        "Hanoi",
        "Lima",
        "Oslo",
        "Perth",
        "Quito",
        "Riga",
        "Tunis",
        "Vienna",
        "Yerevan",
        "Zagreb",
    )
    zones, size = sorted(rng.sample(places, 12)), rng.randrange(20, 400)
    zone = rng.choice(zones[2:])
    least, most = rng.randrange(5, 20), rng.randrange(400, 900)
    machine = appliance("installer", rng, parts=parts, ticked=ticked, zones=zones, least=least, most=most)
    wants = [
        sealed(machine, "the parts", {"parts": wanted}),
        sealed(machine, "the size", {"size": size}),
        sealed(machine, "the zone", {"zone": zone}),
    ]
    keys: list[str] = []
    for part in parts:
        keys += ["Space"] if (part in wanted) != (part in ticked) else []
        keys += ["Down"]
    steps = [
        typed(f"console {PORT}\n", "Parts to install"),
        typed("", "", keys),
        typed("", "Size:", ["Enter"]),
        typed(f"{size}\n", "Time zone"),
        typed("", f"> {zone}", ["Down"] * zones.index(zone)),
        typed("", "> Cancel", ["Enter"]),
        typed("", "> Install", ["Down"]),
        typed("", "was installed", ["Enter"]),
        typed("", "/#", ["Enter"]),
    ]
    chosen = ", ".join(wanted[:-1]) + f" and {wanted[-1]}"
    return job(INSTALL.format(how=HOW.format(port=PORT), parts=chosen, size=size, zone=zone), machine, wants, steps)


PAGE_ROWS = 18


def hidden_log(rng: Random) -> Job:
    name, code = rng.choice(WORDS), f"E{rng.randrange(100, 999)}"
    rows: list[str] = []
    where, found, operator, handed = rng.randrange(200, 420), "", "", 0
    for number in range(600):
        minute = f"{number // 60 + 6:02}:{number % 60:02}"
        who, batch = rng.choice(PEOPLE).split()[0], f"B-{token(rng, 6)}"
        if number == where:
            found = batch
            rows.append(f"{minute} fault {code} batch {batch} stopped")
        elif number % 45 == 7:
            rows.append(f"{minute} shift handed over to {who}")
            operator, handed = (who, number) if number > where and not operator else (operator, handed)
        elif rng.random() < 0.03:
            rows.append(
                f"{minute} fault E{rng.choice([each for each in range(100, 999) if f'E{each}' != code])} batch {batch} cleared"
            )
        else:
            rows.append(f"{minute} batch {batch} {rng.choice(['filled', 'weighed', 'sealed', 'moved'])} {rng.randrange(1000)} g")
    machine = appliance("viewer", rng, rows=rows)
    steps: list[Any] = [
        typed(f"console {PORT}\n", "of 600"),
        typed(f"/fault {code}\n", f"fault {code} batch"),
        typed("/handed over\n", "" if handed < where + PAGE_ROWS else "handed over to"),  # waits for a text that is not there yet
        typed("q", "/#"),
        {"write_from_screens": {"/out/answer.txt": [rf"fault {code} batch (\S+)", r"^\S+ shift handed over to (\w+)"]}},
    ]
    wants = [
        {"kind": "line", "path": "/out/answer.txt", "number": 0, "value": found},
        {"kind": "line", "path": "/out/answer.txt", "number": 1, "value": operator},
    ]
    return job(VIEW.format(name=name, how=HOW.format(port=PORT), code=code), machine, wants, steps)


def account_desk(rng: Random) -> Job:
    name, login, password = rng.choice(WORDS), f"{rng.choice(WORDS)}{rng.randrange(10, 99)}", token(rng, 9)
    length, digits, marks = rng.randrange(12, 18), rng.randrange(2, 5), "".join(rng.sample("!$%&=+*#", 3))
    before = f"2026-{rng.randrange(3, 6):02}-01"
    accounts = {
        word: [rng.random() < 0.5, f"2026-{rng.randrange(1, 8):02}-{rng.randrange(1, 29):02}"] for word in rng.sample(WORDS, 9)
    }
    locked = [word for word, (is_locked, _) in accounts.items() if is_locked]
    if len(locked) < 3:
        for word in list(accounts)[:3]:
            accounts[word][0] = True
    wanted = sorted(rng.sample([word for word, (is_locked, _) in accounts.items() if is_locked], 2))
    stale = sorted(word for word, (is_locked, since) in accounts.items() if not is_locked and since < before)
    machine = appliance(
        "accounts", rng, login=login, password=password, length=length, digits=digits, marks=marks, accounts=accounts
    )
    new = f"Kx{marks[0]}{'7' * digits}{'q' * length}"
    wants = [
        sealed(machine, "the new password", {"changed": True}),
        sealed(machine, "the unlocked accounts", {"unlocked": wanted}),
        sealed(machine, "the locked accounts", {"locked": stale, "unlocked": wanted}),
        {"kind": "password", "path": "/out/password.txt", "length": length, "digits": digits, "marks": marks, "login": login},
    ]
    steps = [typed(f"console {PORT}\n", "login:"), typed(f"{login}\n", "Password:"), typed(f"{password}\n", "New password:")]
    steps += [typed(f"{new}\n", "again:"), typed(f"{new}\n", "choice:"), typed("1\n", "choice:")]
    for choice, names in (("2", wanted), ("3", stale)):
        for each in names:
            steps += [typed(f"{choice}\n", "account:"), typed(f"{each}\n", "choice:")]
    steps += [typed("4\n", "Saved."), f"mkdir -p /out && printf '%s\\n' '{new}' > /out/password.txt"]
    prompt = ACCOUNTS.format(
        name=name, how=HOW.format(port=PORT), login=login, password=password, wanted=" and ".join(wanted), before=before
    )
    return job(prompt, machine, wants, steps)


def second_machine(rng: Random) -> Job:
    name, port = f"{rng.choice(WORDS)}-2", 7000 + rng.randrange(900)
    names = rng.sample(WORDS, 9)
    right = {each: str(rng.randrange(1000)) for each in names[:6]}
    own = rng.choice(names[:6])
    theirs = {each: str(rng.randrange(1000, 2000)) if rng.random() < 0.6 else value for each, value in right.items()}
    theirs[own] = str(rng.randrange(2000, 3000))
    theirs[names[0] if names[0] != own else names[1]] = "broken"
    del theirs[next(each for each in names[1:6] if each != own and theirs[each] != "broken")]
    theirs |= {each: token(rng, 5) for each in names[6:]}
    file, golden = "/etc/relay.conf", "/srv/golden/relay.conf"
    text = lines([f"{each}={value}" for each, value in theirs.items()])
    files = {file: text, "/etc/hosts": f"10.0.0.2 {name}\n", "/var/log/relay.log": f"relay: bad value {token(rng)}\n"}
    machine = appliance("peer", rng, port=port, files=files, service={"file": file, "config": {}, "restarts": 0})
    settled = {**theirs, **right, own: theirs[own]}
    wants = [
        sealed(machine, "the service", {"service/config": settled, "files//etc/hosts": files["/etc/hosts"]}),
        sealed(machine, "one restart", {"service/restarts": 1, "service/config": settled}),
        {"kind": "json", "path": "/out/peer.json", "value": settled},
    ]
    ask = f"""mkdir -p /out; cat > /tmp/peer.py <<'END'
import json, socket
def ask(line):
    with socket.create_connection(("127.0.0.1", {port})) as peer:
        peer.sendall((line + "\\n").encode())
        stream, said = peer.makefile(), []
        for row in stream:
            if row.rstrip("\\r\\n") == ".":
                return "\\n".join(said)
            said.append(row.rstrip("\\r\\n"))
def pairs(text):
    return dict(row.split("=", 1) for row in text.split("\\n") if "=" in row)
print(ask("help"), ask("list"), sep="\\n")
theirs, golden = pairs(ask("get {file}")), pairs(open("{golden}").read())
both = {{**theirs, **golden, "{own}": theirs["{own}"]}}
print(ask("put {file} " + "".join(f"{{name}}={{value}}\\\\n" for name, value in both.items())), ask("restart"))
json.dump(json.loads(ask("status")), open("/out/peer.json", "w"))
END
python3 /tmp/peer.py && cat /out/peer.json"""
    prompt = PEER.format(name=name, port=port, file=file, golden=golden, own=own)
    kept = {golden: lines([f"{each}={value}" for each, value in right.items()])}
    return job(prompt, machine, wants, [ask], files=kept, kept=(golden,))
