"""Scripts that others will run: written to a description or repaired, and tried on cases that the agent has not seen."""

import json
from random import Random

from .job import WORDS, Job, lines, token
from .wanted import runs
from .watching import WATCH, watch_mode

ROTATE = """Write /out/rotate, an executable shell script (`#!/bin/sh`, ordinary tools only). `rotate FOLDER` rotates every
file `*.log` directly in FOLDER that has at least {least} bytes: NAME.log.1 becomes NAME.log.2 and so on, NAME.log becomes
NAME.log.1, and an empty NAME.log takes its place. At most {keep} old ones are kept: what would become NAME.log.{beyond} is
deleted. Names may hold blanks. Smaller files, other files and folders stay as they are. It prints the names of the rotated
files (without the folder), one a line, sorted in byte order, and ends with 0; with a folder that does not exist it prints
nothing to standard output and ends with 2."""
CASE = """mkdir -p /tmp/{number} && cd /tmp/{number} && {make}
/out/rotate /tmp/{number}/box; echo "code $?"
cd /tmp/{number}/box 2>/dev/null && find . -type f | LC_ALL=C sort |
while IFS= read -r f; do printf '%s:%s\\n' "$f" "$(head -c 24 "$f")"; done"""
QUOTING = """/srv/tools/collect is a shell script that goes wrong with some file names and forgets errors. Repair it in
place; it stays a `#!/bin/sh` script. What it is meant to do: `collect SOURCE TARGET` copies every file below SOURCE whose
name ends in `{ending}` (in any folder, any name: blanks, stars, a leading dash, line breaks) to TARGET (made if it is not
there), all in one folder; if two have the same name, the one whose path comes first in byte order wins. It prints the
number of files in TARGET, and ends with 0. If SOURCE is not a folder it prints nothing to standard output, makes nothing,
and ends with {code}."""
BROKEN = """#!/bin/sh
# collect SOURCE TARGET
mkdir $2
for f in $(find $1 -name *{ending} | sort)
do
  cp $f $2
done
echo $(ls $2 | wc -l)
"""
REPAIRED = """#!/bin/sh
# collect SOURCE TARGET
[ -d "$1" ] || exit {code}
mkdir -p -- "$2" || exit 1
case "$1" in -*) set -- "./$1" "$2" ;; esac
export TARGET="$2"
LC_ALL=C find "$1" -type f -name '*{ending}' -print0 | LC_ALL=C sort -z | xargs -0 -r sh -c '
for f; do n=${{f##*/}}; [ -e "$TARGET/$n" ] || cp -- "$f" "$TARGET/$n" || exit 1; done' sh
find "$2" -maxdepth 1 -type f -printf x | wc -c
exit 0
"""
PACKAGE = """/srv/{name} is a small Python program in several files (`python3 /srv/{name}/main.py WORD...` runs it). Make it
one file: /out/{name}.pyz, a zip application that `python3 /out/{name}.pyz WORD...` runs from any folder, with nothing of
/srv/{name} there. It must print the same as the program is meant to; at the moment main.py does not even start, and its
data file is opened by a path that will not exist. The README beside it says what it is meant to print. Leave /srv/{name} as
it is; work on a copy."""


def rotating_script(rng: Random) -> Job:
    least, keep = rng.randrange(20, 60), rng.randrange(2, 5)
    wants = runs(["/out/rotate"], {}, [(f"case {number + 1}", *rotated(rng, number, least, keep)) for number in range(4)])
    script = f"""mkdir -p /out; cat > /out/rotate <<'END'
#!/bin/sh
[ -d "$1" ] || exit 2
cd -- "$1" || exit 2
for f in ./*.log .*.log; do
  [ -f "$f" ] && [ ! -h "$f" ] && [ "$(wc -c < "$f")" -ge {least} ] || continue
  rm -f -- "$f.{keep}"
  n={keep}
  while [ "$n" -gt 1 ]; do
    p=$((n - 1))
    [ -f "$f.$p" ] && mv -- "$f.$p" "$f.$n"
    n=$p
  done
  mv -- "$f" "$f.1"
  : > "$f"
  printf '%s\\n' "${{f#./}}"
done | LC_ALL=C sort
exit 0
END
chmod 755 /out/rotate; mkdir -p /tmp/t && head -c 100 /dev/zero > '/tmp/t/a b.log' && /out/rotate /tmp/t && ls /tmp/t"""
    prompt = ROTATE.format(least=least, keep=keep, beyond=keep + 1)
    watching = watch_mode(rng, "/out/rotate")
    return Job(prompt=prompt, wants=wants, script=WATCH, executable=watching.want, **watching.parts, solution=[script])


def rotated(rng: Random, number: int, least: int, keep: int) -> tuple[str, str]:
    """A folder before, and what the script prints and leaves there."""
    if number == 3:
        return CASE.format(number=number, make="true"), "code 2\n"
    before: dict[str, str] = {}
    for word in rng.sample(WORDS, 4):
        name = f"{word}{rng.choice(['', ' of today', '-2'])}.log"
        before[name] = token(rng, rng.choice([least - 1, least, least + 20, 3]))
        for old in range(1, rng.randrange(1, keep + 2)):
            before[f"{name}.{old}"] = token(rng, 20)
    before |= {"notes.txt": token(rng, least + 5), "sub/inner.log": token(rng, least + 5)}
    after = dict(before)
    moved = sorted(name for name, text in before.items() if name.endswith(".log") and "/" not in name and len(text) >= least)
    for name in moved:
        after.pop(f"{name}.{keep}", None)
        for old in range(keep - 1, 0, -1):
            if f"{name}.{old}" in after:
                after[f"{name}.{old + 1}"] = after.pop(f"{name}.{old}")
        after[f"{name}.1"], after[name] = after[name], ""
    make = "mkdir -p box/sub" + "".join(f" && printf %s '{text}' > 'box/{name}'" for name, text in before.items())
    left = [f"./{name}:{text[:24]}" for name, text in sorted(after.items(), key=lambda pair: f"./{pair[0]}".encode())]
    return CASE.format(number=number, make=make), lines([*moved, "code 0", *left])


def careless_script(rng: Random) -> Job:
    ending, code = rng.choice([".txt", ".csv", ".dat"]), rng.randrange(3, 9)
    path = "/srv/tools/collect"
    trees = [
        {f"in/a b/two words{ending}": token(rng, 6), f"in/*{ending}": token(rng, 6), f"in/-rf{ending}": token(rng, 6)},
        {
            f"in/b/same{ending}": token(rng, 6),
            f"in/a/same{ending}": token(rng, 6),
            f"in/x\ny{ending}": token(rng, 6),
            f"in/{ending}": "dot",
        },
    ]
    cases: list[tuple[str, str, str]] = []
    for number, tree in enumerate(trees):
        made: dict[str, str] = {}
        for name in sorted(tree, key=str.encode):
            made.setdefault(name.rpartition("/")[2], tree[name])
        at = f"/root/case{number}/"
        check = (
            "cat > /tmp/make.py <<'END'\nimport json, os\n"
            f"for path, text in json.loads({json.dumps(json.dumps(tree))}).items():\n"
            f"    os.makedirs(os.path.dirname('{at}' + path), exist_ok=True)\n    open('{at}' + path, 'w').write(text)\nEND\n"
            f'python3 /tmp/make.py; cd {at} && {path} in out; echo code $?; python3 -c "import json, os; '
            "print(json.dumps({n: open('out/' + n).read() for n in os.listdir('out')}, sort_keys=True))\""
        )
        cases.append((f"case {number + 1}", check, f"{len(made)}\ncode 0\n{json.dumps(made, sort_keys=True)}"))
    missing = f"mkdir -p /tmp/w; cd /tmp/w && {path} none out 2>/dev/null; echo code $?; ls"
    wants = runs([path], {}, [*cases, ("no source", missing, f"code {code}")])
    watching = watch_mode(rng, path)
    return Job(
        prompt=QUOTING.format(ending=ending, code=code),
        files={path: BROKEN.format(ending=ending)},
        script=f"chmod 755 {path}\n{WATCH}",
        executable=watching.want,
        **watching.parts,
        wants=wants,
        solution=[f"cat {path}", f"cat > {path} <<'END'\n{REPAIRED.format(ending=ending, code=code)}END\nchmod 755 {path}"],
    )


def zip_application(rng: Random) -> Job:
    name = rng.choice(WORDS)
    prices = {word: rng.randrange(10, 999) for word in rng.sample(WORDS, 8)}
    extra = rng.randrange(2, 9)
    main = "from pricing import total\nimport sys\n\nprint(total(sys.argv[1:])\n"
    pricing = (
        f'"""Prices of words."""\nimport pathlib\n\nfrom helpers.reading import rows\n\n'
        f'PRICES = rows(open("/srv/{name}/data/prices.txt"))\n\n\n'
        f"def total(words):\n    return sum(PRICES.get(word, {extra}) for word in words)\n"
    )
    reading = "def rows(stream):\n    return {name: int(cents) for name, cents in (row.split() for row in stream)}\n"
    readme = f"Prints the sum of the prices of the given words (data/prices.txt); a word that is not listed costs {extra}.\n"
    files = {
        f"/srv/{name}/main.py": main,
        f"/srv/{name}/pricing.py": pricing,
        f"/srv/{name}/helpers/__init__.py": "",
        f"/srv/{name}/helpers/reading.py": reading,
        f"/srv/{name}/data/prices.txt": lines([f"{word} {price}" for word, price in prices.items()]),
        f"/srv/{name}/README": readme,
    }
    pyz = f"/out/{name}.pyz"
    cases = []
    for number in range(3):
        words = rng.choices([*prices, "nothing"], k=number + 2)
        value = str(sum(prices.get(word, extra) for word in words))
        cases.append((f"case {number + 1}", f"cd / && python3 {pyz} {' '.join(words)}", value))
    wants = runs([pyz], {}, cases)
    solution = f"""mkdir -p /out && cp -r /srv/{name} /tmp/app && cd /tmp/app && cat README main.py pricing.py
sed -i 's/^print(total(sys.argv\\[1:\\])$/print(total(sys.argv[1:]))/' main.py && mv main.py __main__.py
sed -i 's|rows(open(.*))|rows(__import__("pkgutil").get_data("data", "prices.txt").decode().splitlines())|' pricing.py
touch data/__init__.py && python3 -m zipapp /tmp/app -o {pyz} && cd / && python3 {pyz} {next(iter(prices))}"""
    return Job(prompt=PACKAGE.format(name=name), files=files, wants=wants, kept=tuple(files), solution=[solution])
