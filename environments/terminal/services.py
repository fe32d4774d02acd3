"""Services without systemd: settings to repair, a run file for the supervisor, crontabs to write and to read.

There is no init system in the sandbox. Services are folders with a `run` file, as runit and daemontools have them; a check starts
the agent's run file in a fresh sandbox and asks the service.
"""

import json
from datetime import date, timedelta
from random import Random
from typing import Any

from .job import PEOPLE, WORDS, Job, lines, token
from .wanted import fires, runs
from .watching import WATCH, watch_mode

SETTINGS = """The service {name} does not start since somebody edited /srv/{name}/settings.ini by hand. `python3
/srv/{name}/service.py --check` says what it stumbles over first. Repair the settings so that it starts, with what the
change request says:

{request}

Every other setting stays as it is meant: the comments say what was meant."""
SERVICE = '''#!/usr/bin/env python3
"""Reads settings.ini beside it. --check prints the settings as it understands them, as JSON, or what is wrong."""
import configparser, json, pathlib, sys

HERE = pathlib.Path(__file__).resolve().parent
KNOWN = {known}


def read():
    parser = configparser.ConfigParser(strict=True, interpolation=None)
    parser.read_string((HERE / "settings.ini").read_text())
    found = {{}}
    for section, names in KNOWN.items():
        if not parser.has_section(section):
            raise ValueError(f"section [{{section}}] is missing")
        for name in parser[section]:
            if name not in names:
                raise ValueError(f"[{{section}}] has the unknown setting {{name}}")
        for name, (kind, low, high) in names.items():
            if name not in parser[section]:
                raise ValueError(f"[{{section}}] lacks {{name}}")
            value = parser[section][name]
            if kind == "int":
                value = int(value)
                if not low <= value <= high:
                    raise ValueError(f"[{{section}}] {{name}} = {{value}} is not between {{low}} and {{high}}")
            elif kind == "flag":
                if value not in ("yes", "no"):
                    raise ValueError(f"[{{section}}] {{name}} is yes or no")
            elif not value.startswith("/"):
                raise ValueError(f"[{{section}}] {{name}} must be an absolute path")
            found[f"{{section}}.{{name}}"] = value
    return found


try:
    settings = read()
except (ValueError, configparser.Error) as error:
    sys.exit(f"settings.ini: {{error}}".splitlines()[0])
if "--check" in sys.argv:
    print(json.dumps(settings, sort_keys=True))
'''
RUN_FILE = """A small web service, /srv/{name}/app.py, is to run under the supervisor of this machine. There is no systemd:
the supervisor starts `/srv/services/{name}/run` and starts it again when it ends. Write that run file (executable, with a
`#!` line) so that:

- it runs `python3 /srv/{name}/app.py` in the foreground, as the same process (`exec`), with the working directory
  /srv/{name}/data;
- the service listens on port {port} of 127.0.0.1; app.py says which variable is for that;
- the variables of /srv/{name}/env (lines NAME=value, comments, blank lines; values may hold blanks) are set for it;
- `umask` is {umask}, and error output goes to the same place as standard output.

You may start it to try it, but leave no copy running."""
APP = '''"""Answers GET with a JSON object about itself. BIND_PORT is its port; without DATA_WORD it does not start."""
import http.server, json, os, sys

if not os.environ.get("DATA_WORD"):
    sys.exit("DATA_WORD is not set")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        mask = os.umask(0)
        os.umask(mask)
        same = os.fstat(1).st_ino == os.fstat(2).st_ino
        told = {name: os.environ.get(name) for name in os.environ["TOLD"].split(",")}
        about = {"cwd": os.getcwd(), "mask": oct(mask), "one_output": same, "pid": os.getpid(), "env": told}
        body = json.dumps(about, sort_keys=True)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass


http.server.HTTPServer(("127.0.0.1", int(os.environ["BIND_PORT"])), Handler).serve_forever()
'''
PROBE = """mkdir -p {data}; {run} > /tmp/said 2>&1 & started=$!
python3 - "$started" <<'END'
import json, sys, time, urllib.request
for _ in range(100):
    try:
        told = json.load(urllib.request.urlopen("http://127.0.0.1:{port}/", timeout=5))
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("no answer")
told["pid"] = told["pid"] == int(sys.argv[1])
rows = [json.dumps(told[part], sort_keys=True) for part in ("cwd", "mask", "one_output", "pid", "env")]
print(*rows, sep=chr(10), file=open("/tmp/told", "w"))
print(rows[0])
END
kill $started"""
CRON = """Write the system crontab /out/{name} (the form of /etc/cron.d: minute, hour, day of month, month, day of week,
user `root`, command) with exactly these jobs, one line each:

{jobs}

It will be read by an ordinary cron. Other lines may be comments only."""
SCHEDULE = """/srv/cron holds the system crontabs of a machine (the form of /etc/cron.d), some of them switched off by the
ending `.off`. Write /out/runs.csv: what cron starts on {day} ({weekday}) from {first:02}:00 until before {last:02}:00, as
lines `HH:MM,command`, sorted. If day of month and day of week are both restricted, a job runs when either fits, as in every
cron."""


def broken_settings(rng: Random) -> Job:
    name = rng.choice(WORDS)
    known: dict[str, dict[str, tuple[str, int, int]]] = {}
    meant: dict[str, Any] = {}
    for section in rng.sample(["server", "queue", "storage", "mail", "limits"], 3):
        known[section] = {}
        for word in rng.sample(WORDS, 4):
            kind = rng.choice(["int", "int", "flag", "path"])
            low, high = rng.randrange(1, 50), rng.randrange(400, 900)
            known[section][word] = (kind, low, high)
            value = {"int": rng.randrange(low, high), "flag": rng.choice(["yes", "no"]), "path": f"/srv/{token(rng, 6)}"}[kind]
            meant[f"{section}.{word}"] = value
    asked = dict(rng.sample([(key, value) for key, value in meant.items() if isinstance(value, int)], 2))
    changed = {
        key: rng.choice([n for n in range(*known[key.split(".")[0]][key.split(".")[1]][1:]) if n != value])
        for key, value in asked.items()
    }
    faults = rng.sample([key for key in meant if key not in asked], 4)
    rows: list[str] = []
    for place, (section, names) in enumerate(known.items()):
        rows.append(f"[{section}]" if place != 1 else f"[{section}")
        for word in names:
            key = f"{section}.{word}"
            rows.append(f"# {word}: {meant[key]}" if key in faults else f"# set by {rng.choice(PEOPLE)}")
            fault = faults.index(key) if key in faults else -1
            written = {
                0: f"{word} {meant[key]}",
                1: f"{word[:-1]} = {meant[key]}",
                2: f"{word} = {meant[key]}\n{word} = {meant[key]}",
            }
            rows.append(written.get(fault, f"{word} = {str(meant[key]) + ';' if fault == 3 else meant[key]}"))
    request = "\n".join(f"- [{key.split('.')[0]}] {key.split('.')[1]} becomes {value}" for key, value in changed.items())
    program = SERVICE.format(
        known=json.dumps({s: {n: list(limits) for n, limits in names.items()} for s, names in known.items()})
    )
    wanted = json.dumps(meant | changed, sort_keys=True)
    settings, service = f"/srv/{name}/settings.ini", f"/srv/{name}/service.py"
    right = [f"\n[{s}]\n" + "".join(f"{n} = {(meant | changed)[f'{s}.{n}']}\n" for n in names) for s, names in known.items()]
    untouched = json.dumps({key: value for key, value in (meant | changed).items() if key in faults}, sort_keys=True)
    part = (
        f"python3 {service} --check > /tmp/told && python3 - <<'END'\n"
        f"import json\ntold = json.load(open('/tmp/told'))\n"
        f"print(json.dumps({{name: told[name] for name in {faults!r}}}, sort_keys=True))\nEND"
    )
    return Job(
        prompt=SETTINGS.format(name=name, request=request),
        files={settings: lines(rows), service: program},
        wants=runs(
            [settings],
            {service: program},
            [("repaired", part, untouched), ("all settings", f"python3 {service} --check", wanted)],
        ),
        kept=(service,),
        solution=[
            f"python3 {service} --check; cat {settings}",
            f"cat > {settings} <<'END'{''.join(right)}END\npython3 {service} --check",
        ],
    )


def supervised_service(rng: Random) -> Job:
    name, port, umask = rng.choice(WORDS), rng.randrange(8000, 8900), rng.choice(["027", "077", "007"])
    told = rng.sample(WORDS, 3)
    env = {word.upper(): f"{token(rng, 5)} {token(rng, 4)}" if rng.random() < 0.5 else token(rng) for word in told}
    env = {"DATA_WORD": token(rng), **env, "TOLD": ",".join(sorted([*env, "DATA_WORD"]))}
    rows = ["# variables of the service", ""]
    for variable, value in env.items():
        rows += [f"{variable}={value}", *(["", f"# {rng.choice(WORDS)}"] if rng.random() < 0.4 else [])]
    root, run = f"/srv/{name}", f"/srv/services/{name}/run"
    files = {f"{root}/app.py": APP, f"{root}/env": lines(rows), f"{root}/data/.keep": ""}
    values = {
        "cwd": f"{root}/data",
        "mask": oct(int(umask, 8)),
        "one_output": True,
        "pid": True,
        "env": {key: env[key] for key in sorted(env) if key != "TOLD"},
    }
    probes = [PROBE.format(data=f"{root}/data", run=run, port=port), *[f"sed -n {line}p /tmp/told" for line in range(2, 6)]]
    cases = [
        (f"{part} of the running service", probe, json.dumps(value, sort_keys=True))
        for probe, (part, value) in zip(probes, values.items(), strict=True)
    ]
    wants = runs([run], files, cases)
    script = f"""mkdir -p /srv/services/{name}; cat > {run} <<'END'
#!/bin/sh
exec 2>&1
umask {umask}
cd {root}/data || exit 1
while IFS= read -r row; do
  case "$row" in ''|'#'*) ;; *) export "$row" ;; esac
done < {root}/env
export BIND_PORT={port}
exec python3 {root}/app.py
END
chmod 755 {run}"""
    watching = watch_mode(rng, run)
    return Job(
        prompt=RUN_FILE.format(name=name, port=port, umask=umask),
        files=files,
        wants=wants,
        kept=(f"{root}/app.py", f"{root}/env"),
        closed=port,
        script=WATCH,
        executable=watching.want,
        **watching.parts,
        solution=[f"cat {root}/app.py {root}/env", script],
    )


DAYS = [str(date(2026, 6, 1) + timedelta(days=number)) for number in range(35)]


def written_crontab(rng: Random) -> Job:
    name = rng.choice(WORDS)
    minute, hour = rng.randrange(1, 59), rng.randrange(1, 22)
    step, day = rng.choice([5, 10, 15, 20]), rng.randrange(2, 28)
    first, last = rng.randrange(6, 9), rng.randrange(16, 20)
    words = rng.sample(WORDS, 5)
    weekday = rng.choice([("Saturdays", "6"), ("Sundays", "0"), ("Tuesdays", "2"), ("Thursdays", "4")])
    jobs = [
        (f"{minute} {hour} * * 1-5", f"on working days (Monday to Friday) at {hour:02}:{minute:02}"),
        (
            f"*/{step} {first}-{last} * * *",
            f"every {step} minutes, on the full hour too, from {first:02}:00 until {last}:{60 - step}",
        ),
        (f"0 {hour + 1} {day} * *", f"on day {day} of every month at {hour + 1:02}:00"),
        (
            f"{minute},{(minute + 31) % 60} * * * {weekday[1]}",
            f"on {weekday[0]}, in every hour, {minute} and {(minute + 31) % 60} minutes past",
        ),
        ("45 23 1-7 6 *", "at 23:45 on the first seven days of June, and in no other month"),
    ]
    rng.shuffle(jobs)
    commands = [f"/usr/local/bin/{word}" for word in words]
    text = lines([f"{when} root {command}" for (when, _), command in zip(jobs, commands, strict=True)])
    told = "\n".join(f"- `{command}` {how}" for (_, how), command in zip(jobs, commands, strict=True))
    path = f"/out/{name}"
    every = fires(text, DAYS)
    assert every is not None
    return Job(
        prompt=CRON.format(name=name, jobs=told),
        wants=[{"kind": "cron", "path": path, "days": DAYS, "value": every}],
        solution=[f"mkdir -p /out; cat > {path} <<'END'\n{text}END"],
    )


def read_crontabs(rng: Random) -> Job:
    day = date(2026, rng.randrange(1, 13), rng.randrange(1, 28))
    first = rng.randrange(0, 18)
    last = first + rng.randrange(2, 5)
    files: dict[str, str] = {}
    for word in rng.sample(WORDS, 5):
        rows = [f"# {rng.choice(PEOPLE)}", "SHELL=/bin/sh", ""]
        for _ in range(rng.randrange(2, 5)):
            minute = rng.choice(
                [str(rng.randrange(60)), f"*/{rng.choice([7, 15, 20, 30])}", f"{rng.randrange(30)}-{rng.randrange(30, 59)}/11"]
            )
            hour = rng.choice(
                ["*", str(rng.randrange(first, last)), f"{first}-{last}", f"*/{rng.choice([2, 3])}", str(rng.randrange(24))]
            )
            in_month = rng.choice(["*", "*", str(day.day), str(rng.randrange(1, 28)), f"{max(1, day.day - 2)}-{day.day}"])
            month = rng.choice(["*", "*", str(day.month), f"{day:%b}".lower()])
            week = rng.choice(
                ["*", "*", f"{day:%a}".lower(), "1-5", str(rng.randrange(7)), "sat,sun" if rng.random() < 0.5 else "7"]
            )
            rows.append(f"{minute} {hour} {in_month} {month} {week} root /opt/{word}/{token(rng, 4)} --quiet")
        files[f"/srv/cron/{word}{'.off' if rng.random() < 0.25 else ''}"] = lines(rows)
    runs = [
        f"{time[6:]},{command}"
        for path, text in files.items()
        if not path.endswith(".off")
        for command, times in (fires(text, [str(day)]) or {}).items()
        for time in times
        if first <= int(time[6:8]) < last
    ]
    if not 4 <= len(runs) <= 60:
        return read_crontabs(Random(rng.getrandbits(64)))
    solution = f"""mkdir -p /out; cat > /tmp/cron.py <<'END'
import datetime, glob
DAY = datetime.date({day.year}, {day.month}, {day.day})
WEEK, YEAR = "sun mon tue wed thu fri sat".split(), ". jan feb mar apr may jun jul aug sep oct nov dec".split()
def spread(text, low, high, names=()):
    found = set()
    for piece in text.split(","):
        span, _, step = piece.partition("/")
        ends = [low, high] if span == "*" else [names.index(e) if e in names else int(e) for e in span.split("-")]
        found |= set(range(ends[0], (ends[-1] if len(ends) > 1 or not step else high) + 1, int(step or 1)))
    return found
out = []
for path in glob.glob("/srv/cron/*"):
    for row in open(path) if not path.endswith(".off") else ():
        parts = row.split(None, 6)
        if len(parts) < 7 or row.startswith("#"):
            continue
        week = (DAY.isoweekday() % 7) in {{day % 7 for day in spread(parts[4], 0, 7, WEEK)}}
        month = DAY.day in spread(parts[2], 1, 31)
        fits = (week and month) if "*" in (parts[2][0], parts[4][0]) else (week or month)
        if fits and DAY.month in spread(parts[3], 1, 12, YEAR):
            for hour in spread(parts[1], 0, 23) & set(range({first}, {last})):
                out += [f"{{hour:02}}:{{minute:02}},{{parts[6].strip()}}" for minute in spread(parts[0], 0, 59)]
open("/out/runs.csv", "w").write("".join(each + "\\n" for each in sorted(out)))
END
python3 /tmp/cron.py && cat /out/runs.csv"""
    return Job(
        prompt=SCHEDULE.format(day=day, weekday=f"{day:%A}", first=first, last=last),
        files=files,
        wants=[{"kind": "text", "path": "/out/runs.csv", "value": lines(sorted(runs))}],
        kept=tuple(files),
        solution=[solution],
    )
