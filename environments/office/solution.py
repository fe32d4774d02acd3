"""Plays a task as a person with Python would: reads what is in the inbox, runs the program of the job, reads what came out."""

from sandlot import Agent, Task

LOOK = """
import re, sys, zipfile
from itertools import islice
from pathlib import Path
for path in islice(sorted(Path(sys.argv[1]).rglob("*.*")), 4):
    print("==", path)
    if path.suffix == ".xlsx":
        import openpyxl
        for sheet in openpyxl.load_workbook(path):
            print("--", sheet.title, sheet.dimensions)
            for row in sheet.iter_rows(max_row=14):
                print(row[0].row, [cell.value for cell in row])
    elif path.suffix == ".docx":
        import docx
        for paragraph in islice(docx.Document(path).paragraphs, 40):
            print(f"{paragraph.style.name}: {paragraph.text}")
    elif path.suffix == ".pptx":
        with zipfile.ZipFile(path) as parts:
            for name in sorted(parts.namelist()):
                if re.fullmatch("ppt/(slides|notesSlides)/[a-zA-Z]+[0-9]+[.]xml", name):
                    print(name, re.findall("<a:t>(.*?)</a:t>", parts.read(name).decode()))
    elif path.suffix in (".txt", ".csv"):
        print(path.read_text()[:2000])
"""


async def solve(agent: Agent, task: Task) -> None:
    await _run(agent, "look", LOOK, "python3 /tmp/look.py /inbox")
    await _run(agent, "work", task.key["golden"], "python3 /tmp/work.py && find /out -type f && python3 /tmp/look.py /out")
    await agent.say("Done: the files are in /out.")


async def _run(agent: Agent, name: str, program: str, command: str) -> None:
    await agent.call("bash", command=f"cat > /tmp/{name}.py <<'END_OF_FILE'\n{program.strip()}\nEND_OF_FILE\n{command}")
