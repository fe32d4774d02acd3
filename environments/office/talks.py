"""Slide decks: from a report, brought up to date, repaired."""

from random import Random

from . import docx, pptx
from .job import PEOPLE, TOWNS, Job, check
from .letters import SUBJECTS
from .pptx import Slide
from .xlsx import Sheet, workbook

EDITOR = """
import re, zipfile
from xml.sax.saxutils import escape

class Deck:
    '''The parts of a .pptx, with just enough to add, drop and order slides.'''
    def __init__(self, path):
        with zipfile.ZipFile(path) as source:
            self.parts = {name: source.read(name).decode() for name in source.namelist()}
        rels = dict(re.findall(r'Id="(rId\\d+)"[^>]*Target="(slides/slide\\d+\\.xml)"', self.parts["ppt/_rels/presentation.xml.rels"]))
        order = re.findall(r'<p:sldId [^>]*r:id="(rId\\d+)"', self.parts["ppt/presentation.xml"])
        self.slides = ["ppt/" + rels[each] for each in order]
    def layout(self, name):
        return next(part for part in self.parts if re.fullmatch(r"ppt/slideLayouts/slideLayout\\d+\\.xml", part) and f'name="{name}"' in self.parts[part])
    def add(self, layout, title, lines=(), notes="", table=(), extra=""):
        number = 1 + max(int(re.search(r"(\\d+)\\.xml$", name)[1]) for name in self.parts if re.fullmatch(r"ppt/slides/slide\\d+\\.xml", name))
        name = f"ppt/slides/slide{number}.xml"
        kind = "ctrTitle" if layout == "Title Slide" else "title"
        body = {"Title Slide": '<p:ph type="subTitle" idx="1"/>', "Title and Content": '<p:ph type="body" idx="1"/>'}.get(layout)
        text = lambda lines: "<p:txBody><a:bodyPr/><a:lstStyle/>" + "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in lines) + "</p:txBody>"
        sp = lambda n, label, ph, lines: f'<p:sp><p:nvSpPr><p:cNvPr id="{n}" name="{label}"/><p:cNvSpPr/><p:nvPr>{ph}</p:nvPr></p:nvSpPr><p:spPr/>{text(lines)}</p:sp>'
        shapes = sp(2, "Title", f'<p:ph type="{kind}"/>', [title]) + (sp(3, "Content", body, lines) if body else "") + (table_xml(table) if table else "") + extra
        head = re.match(r".*?<p:spTree>.*?</p:nvGrpSpPr>(?:<p:grpSpPr/>)?", self.parts[self.slides[0]], re.S)[0]
        self.parts[name] = head + shapes + "</p:spTree></p:cSld><p:clrMapOvr><a:masterClrMapping/></p:clrMapOvr></p:sld>"
        kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        rels = f'<Relationship Id="rId1" Type="{kinds}/slideLayout" Target="../slideLayouts/{self.layout(layout).rpartition("/")[2]}"/>'
        types = self.parts["[Content_Types].xml"]
        base = "application/vnd.openxmlformats-officedocument.presentationml"
        types = types.replace("</Types>", f'<Override PartName="/{name}" ContentType="{base}.slide+xml"/></Types>')
        if notes:
            rels += f'<Relationship Id="rId2" Type="{kinds}/notesSlide" Target="../notesSlides/notesSlide{number}.xml"/>'
            spaces = re.search(r"<p:sld (xmlns[^>]*)>", head)[1]
            note = sp(2, "Notes", '<p:ph type="body" idx="1"/>', [notes])
            group = re.search(r"<p:nvGrpSpPr>.*", head, re.S)[0]
            self.parts[f"ppt/notesSlides/notesSlide{number}.xml"] = f'<p:notes {spaces}><p:cSld><p:spTree>{group}{note}</p:spTree></p:cSld></p:notes>'
            self.parts[f"ppt/notesSlides/_rels/notesSlide{number}.xml.rels"] = f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="{kinds}/slide" Target="../slides/slide{number}.xml"/></Relationships>'
            types = types.replace("</Types>", f'<Override PartName="/ppt/notesSlides/notesSlide{number}.xml" ContentType="{base}.notesSlide+xml"/></Types>')
        self.parts["[Content_Types].xml"] = types
        self.parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{rels}</Relationships>'
        self.slides.append(name)
        return name
    def save(self, path):
        kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        rels = re.sub(r'<Relationship [^>]*Target="slides/[^>]*/>', "", self.parts["ppt/_rels/presentation.xml.rels"])
        rows = "".join(f'<Relationship Id="rId{100 + n}" Type="{kinds}/slide" Target="{name[4:]}"/>' for n, name in enumerate(self.slides))
        self.parts["ppt/_rels/presentation.xml.rels"] = rels.replace("</Relationships>", rows + "</Relationships>")
        ids = "".join(f'<p:sldId id="{300 + n}" r:id="rId{100 + n}"/>' for n in range(len(self.slides)))
        self.parts["ppt/presentation.xml"] = re.sub(r"<p:sldIdLst>.*?</p:sldIdLst>", f"<p:sldIdLst>{ids}</p:sldIdLst>", self.parts["ppt/presentation.xml"], flags=re.S)
        gone = [name for name in self.parts if re.fullmatch(r"ppt/slides/slide\\d+\\.xml", name) and name not in self.slides]
        for name in gone:
            del self.parts[name]
            self.parts.pop(name.replace("slides/slide", "slides/_rels/slide") + ".rels", None)
            self.parts["[Content_Types].xml"] = re.sub(rf'<Override PartName="/{name}"[^>]*/>', "", self.parts["[Content_Types].xml"])
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
            for name, text in self.parts.items():
                out.writestr(name, text)

def table_xml(rows):
    cell = lambda text: f'<a:tc><a:txBody><a:bodyPr/><a:lstStyle/><a:p><a:r><a:rPr sz="1400"/><a:t>{escape(text)}</a:t></a:r></a:p></a:txBody><a:tcPr/></a:tc>'
    lines = "".join('<a:tr h="370840">' + "".join(map(cell, row)) + "</a:tr>" for row in rows)
    grid = "".join(f'<a:gridCol w="{7620000 // len(rows[0])}"/>' for _ in rows[0])
    return ('<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="9" name="Table"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr><p:xfrm><a:off x="762000" y="1905000"/>'
        f'<a:ext cx="7620000" cy="{370840 * len(rows)}"/></p:xfrm><a:graphic><a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/table"><a:tbl><a:tblPr/><a:tblGrid>{grid}</a:tblGrid>{lines}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>')
"""

# -- slides from a report -----------------------------------------------------------------------------------------------

TALK = "/out/talk.pptx"
TALK_PROMPT = """
Please turn /inbox/report.docx into slides with our template /inbox/template.pptx and save them as /out/talk.pptx.

1. Title slide (layout "Title Slide"): the report's title; subtitle "{speaker}, {town}".
2. A slide "Agenda" (layout "Title and Content") with the chapters of the report.
3. One slide per chapter, in the order of the report (layout "Title and Content", title = name of the chapter): the key points of the chapter, that is the sentences marked "Key:" in the report, without the mark, one line each. What is marked "Spoken:" goes into the speaker notes of that slide.
4. A slide "Figures" (layout "Title Only") with the table of the report as a table.
5. A slide "Decisions needed" (layout "Title and Content") with all sentences marked "Decision:", without the mark, in the order of the report.

The template's own sample slides must not remain. Nothing may run out of its box or off the slide; no text below 12 points.
"""
TALK_GOLDEN = (
    EDITOR
    + """
import docx
report = docx.Document("/inbox/report.docx")
title, chapters = "", []
for paragraph in report.paragraphs:
    text = paragraph.text.strip()
    if paragraph.style.name == "Title":
        title = text
    elif paragraph.style.name == "Heading 1":
        chapters.append({"name": text, "Key": [], "Spoken": [], "Decision": []})
    elif ":" in text and text.split(":")[0] in ("Key", "Spoken", "Decision"):
        chapters[-1][text.split(":")[0]].append(text.split(":", 1)[1].strip())
rows = [[cell.text for cell in row.cells] for row in report.tables[0].rows]
deck = Deck("/inbox/template.pptx")
old = list(deck.slides)
deck.add("Title Slide", title, ["SPEAKER, TOWN"])
deck.add("Title and Content", "Agenda", [chapter["name"] for chapter in chapters])
for chapter in chapters:
    deck.add("Title and Content", chapter["name"], chapter["Key"], " ".join(chapter["Spoken"]))
deck.add("Title Only", "Figures", table=rows)
deck.add("Title and Content", "Decisions needed", [line for chapter in chapters for line in chapter["Decision"]])
deck.slides = [name for name in deck.slides if name not in old]
deck.save("/out/talk.pptx")
"""
)
KEYS = (
    "Waiting times fell by {n} percent",
    "Two sites moved to the new system",
    "{town} has the highest rate",
    "Costs stay within the plan",
    "Sick leave is back to normal",
    "The pilot ends in June",
    "{n} customers answered the survey",
    "Quality improved in every region",
)
SPOKEN = (
    "Mention the visit of the auditors.",
    "Thank the team in {town}.",
    "Show the sample if there is time.",
    "The exact figures are in the appendix.",
)
DECISIONS = (
    "Extend the pilot to {town}",
    "Hire two more people",
    "Keep the present supplier",
    "Close the branch in {town}",
    "Buy instead of lease",
)


def talk(rng: Random) -> Job:
    speaker, town = rng.choice(PEOPLE), rng.choice(TOWNS)
    title = f"{rng.choice(['Service', 'Logistics', 'Quality', 'Personnel'])} review {rng.choice([2025, 2026])}"
    names = rng.sample(SUBJECTS, rng.randint(3, 4))
    fill = lambda text: text.format(n=rng.randrange(5, 60), town=rng.choice(TOWNS))  # noqa: E731 - three times
    body, chapters = [docx.para(title, "Title")], []
    keys, decisions = rng.sample(KEYS, 2 * len(names)), rng.sample(DECISIONS, 3)
    spoken = rng.sample(SPOKEN, len(names))
    for place, name in enumerate(names):
        points = [fill(text) for text in keys[2 * place : 2 * place + 2]]
        said = fill(spoken[place])
        decided = [fill(decisions[place])] if place < len(decisions) else []
        chapters.append([name, points, said, decided])
        body += [
            docx.para(name, "Heading1"),
            docx.para(f"This chapter covers {name.lower()} in the past year. The details were collected from all sites."),
        ]
        marked = [*[f"Key: {point}" for point in points], f"Spoken: {said}", *[f"Decision: {each}" for each in decided]]
        rng.shuffle(marked)
        places = iter(points)
        body += [docx.para(f"Key: {next(places)}" if text.startswith("Key: ") else text) for text in marked]
    rows = [
        ["Site", "Cases", "Change"],
        *[[place, str(rng.randrange(10, 300)), f"{rng.randrange(-20, 20)} %"] for place in rng.sample(TOWNS, 4)],
    ]
    body.append(docx.table(rows))
    titles = [title, "Agenda", *names, "Figures", "Decisions needed"]
    last = len(titles)
    key = {
        "titles": titles,
        "layouts": ["Title Slide", "Title and Content", *["Title and Content"] * len(names), "Title Only", "Title and Content"],
        "subtitle": [f"{speaker}, {town}"],
        "agenda": names,
        "points": [[place + 3, chapter[1]] for place, chapter in enumerate(chapters)],
        "notes": [[place + 3, [chapter[2]]] for place, chapter in enumerate(chapters)],
        "chapter_1": chapters[0][1],
        "chapter_2": chapters[1][1],
        "chapter_3": chapters[2][1],
        "rows": rows,
        "figures": last - 1,
        "last": last,
        "decisions": [each for chapter in chapters for each in chapter[3]],
        "samples": ["Sample title", "Sample content"],
        "marks": ["Key:", "Spoken:", "Decision:"],
    }
    template = pptx.deck(
        Slide("Title Slide", "Sample title", ["Sample subtitle"]), Slide("Title and Content", "Sample content", ["Sample line"])
    )
    golden = TALK_GOLDEN.replace("SPEAKER", speaker).replace("TOWN", town)
    return Job(
        TALK_PROMPT.format(speaker=speaker, town=town),
        {"/inbox/report.docx": docx.document(*body), "/inbox/template.pptx": template},
        golden,
        key,
        "hard",
    )


TALK_RUBRIC = [
    check("titles", "slide_titles", 5, path=TALK, titles="$key.titles"),
    check("layouts", "slide_layouts", 3, needs=("titles",), path=TALK, layouts="$key.layouts"),
    check("subtitle", "slide_has_text", 1, path=TALK, slide=1, texts="$key.subtitle"),
    check("agenda", "slide_has_text", 2, path=TALK, slide=2, texts="$key.agenda"),
    check("agenda_lines", "checks:slide_lines", 1, path=TALK, slide=2, lines="$key.agenda"),
    *[check(f"chapter_{n}", "slide_has_text", 2, path=TALK, slide=n + 2, texts=f"$key.chapter_{n}") for n in (1, 2, 3)],
    check("only_key_points", "checks:slides_have_lines", 3, path=TALK, slides="$key.points"),
    check("notes", "checks:slides_have_notes", 3, path=TALK, slides="$key.notes"),
    check("figures", "slide_table", 4, path=TALK, slide="$key.figures", rows="$key.rows"),
    check("decisions", "checks:slide_lines", 3, path=TALK, slide="$key.last", lines="$key.decisions"),
    check("samples_gone", "slides_lack_text", 1, needs=("titles",), path=TALK, texts="$key.samples"),
    check("marks_gone", "slides_lack_text", 1, needs=("chapter_1",), path=TALK, texts="$key.marks"),
    check("inside", "slides_within_bounds", 1, needs=("titles",), tag="format", path=TALK),
    check("no_overlap", "slides_do_not_overlap", 1, needs=("titles",), tag="format", path=TALK),
    check("filled", "slides_filled", 1, needs=("titles",), tag="format", path=TALK),
    check("readable", "slides_readable", 1, needs=("titles",), tag="format", path=TALK, size=12),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- a deck that is broken ----------------------------------------------------------------------------------------------

DECK = "/out/fixed.pptx"
DECK_PROMPT = """
/inbox/deck.pptx was put together in a hurry, and I present it in an hour. Please repair it and save it as /out/fixed.pptx:

- The order should be: {order}. One slide is there twice; keep one of them.
- The slide about {boxed} has its title in a text box; it must be a real title (placeholder), and the text box goes.
- On the slide about {off}, a box with the contact hangs off the slide; move it inside, below the text, without covering it.
- The slide about {full} has far too much in a small box: give the text its place in the layout back and a size of at least 14 points.
- The slide about {tiny} has a useless table of contents in 8 points: remove that box.
- The company is called {right} everywhere, not {wrong}.

The texts stay as they are otherwise, and so do the speaker notes.
"""
DECK_GOLDEN = (
    EDITOR
    + """
deck = Deck("/inbox/deck.pptx")
shapes = lambda xml: re.findall(r"<p:sp>.*?</p:sp>", xml, re.S)
def title_of(name):
    xml = deck.parts[name]
    for shape in shapes(xml):
        if 'type="title"' in shape or 'type="ctrTitle"' in shape:
            return "".join(re.findall(r"<a:t>(.*?)</a:t>", shape))
    return "BOXED" if "BOXED" in xml else ""
for name in deck.slides:
    xml = deck.parts[name].replace("WRONG", "RIGHT")
    for shape in shapes(xml):
        text = "".join(re.findall(r"<a:t>(.*?)</a:t>", shape))
        if 'txBox="1"' in shape and text == "BOXED":
            real = '<p:sp><p:nvSpPr><p:cNvPr id="20" name="Title"/><p:cNvSpPr/><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/><a:lstStyle/><a:p><a:r><a:t>BOXED</a:t></a:r></a:p></p:txBody></p:sp>'
            xml = xml.replace(shape, "").replace("</p:nvGrpSpPr><p:grpSpPr/>", "</p:nvGrpSpPr><p:grpSpPr/>" + real, 1)
        elif 'txBox="1"' in shape and text.startswith("Contact:"):
            moved = re.sub(r'<a:off x="\\d+" y="\\d+"/>', '<a:off x="508000" y="6286500"/>', shape)
            moved = re.sub(r'<a:ext cx="\\d+" cy="\\d+"/>', '<a:ext cx="8128000" cy="444500"/>', moved)
            xml = xml.replace(shape, moved)
        elif 'txBox="1"' in shape and 'sz="800"' in shape:
            xml = xml.replace(shape, "")
        elif 'type="body"' in shape and "<a:xfrm>" in shape:
            xml = xml.replace(shape, re.sub(r'<p:spPr>.*?</p:spPr>', "<p:spPr/>", re.sub(r'sz="\\d+"', 'sz="1400"', shape), flags=re.S))
    deck.parts[name] = xml
names = {}
for name in deck.slides:
    names.setdefault(title_of(name), name)
deck.slides = [names[title] for title in ORDER]
deck.save("/out/fixed.pptx")
"""
)


def broken_deck(rng: Random) -> Job:
    right = f"{rng.choice(TOWNS)} {rng.choice(['Mobility', 'Analytics', 'Coatings'])}"
    wrong = right.split(maxsplit=1)[0] + " " + rng.choice(["Motion", "Data", "Paints"])
    names = rng.sample(SUBJECTS, 5)
    start = f"{right}: plans for {rng.choice([2026, 2027])}"
    full, boxed, off, tiny, plain = names
    lines = {
        name: [
            f"{name} at {wrong if n == 1 else 'our sites'}: point {n}, {rng.choice(['agreed', 'open', 'done'])} ({rng.randrange(10, 99)})"
            for n in range(1, 4)
        ]
        for name in names
    }
    lines[full] = [
        f"{name} needs attention in {town}, see the note of week {rng.randrange(1, 52)}"
        for name, town in zip(rng.sample(SUBJECTS, 7), rng.sample(TOWNS, 7), strict=True)
    ]
    contact = f"Contact: {rng.choice(PEOPLE)}"
    slides = {
        full: Slide(
            "Title and Content",
            full,
            lines[full],
            body_place=(450, 300, 200, 90),
            body_size=20,
            notes=f"Take time for {full.lower()}.",
        ),
        boxed: Slide(
            "Title and Content",
            None,
            lines[boxed],
            boxes=[(boxed, (40, 30, 500, 60), 36)],
            notes=f"Ask who knows {boxed.lower()}.",
        ),
        off: Slide("Title and Content", off, lines[off], boxes=[(contact, (620, 505, 300, 60), 14)]),
        tiny: Slide(
            "Title and Content", tiny, lines[tiny], boxes=[("1 Start 2 Middle 3 End 4 Questions", (40, 500, 300, 30), 8)]
        ),
        plain: Slide("Title and Content", plain, lines[plain], notes="Short."),
    }
    order = rng.sample(names, 5)
    mixed = rng.sample(order, 5)
    while mixed == order:
        mixed = rng.sample(order, 5)
    first = Slide("Title Slide", start.replace(right, wrong), [f"{rng.choice(PEOPLE)}, {wrong}"])
    made = [first, *[slides[name] for name in mixed]]
    made.insert(rng.randint(2, 5), slides[plain])
    place = {name: order.index(name) + 2 for name in names}
    fixed = {name: [line.replace(wrong, right) for line in lines[name]] for name in names}
    key = {
        "titles": [start, *order],
        "boxed": [place[boxed], boxed],
        "lines": [[place[name], fixed[name]] for name in names],
        "notes": [[place[name], [slides[name].notes]] for name in names if slides[name].notes],
        "wording": [line for name in names for line in lines[name]],
        "renamed": [wrong, right],
        "wrong": [wrong],
        "tiny": ["1 Start 2 Middle 3 End 4 Questions"],
        "contact": [contact],
        "off": place[off],
        "full": full,
        "names": [right],
    }
    golden = (
        DECK_GOLDEN.replace("ORDER", repr([start, *order]))
        .replace("WRONG", wrong)
        .replace("RIGHT", right)
        .replace("BOXED", boxed)
    )
    prompt = DECK_PROMPT.format(
        order=", ".join(["the title slide", *order]), boxed=boxed, off=off, full=full, tiny=tiny, right=right, wrong=wrong
    )
    return Job(prompt, {"/inbox/deck.pptx": pptx.deck(*made)}, golden, key, "hard")


DECK_RUBRIC = [
    check(
        "nothing_lost", "checks:wording_kept", 0, gate=True, tag="care", path=DECK, texts="$key.wording", renamed="$key.renamed"
    ),
    check("order", "slide_titles", 5, needs=("renamed",), path=DECK, titles="$key.titles"),
    check("renamed", "slides_lack_text", 3, path=DECK, texts="$key.wrong"),
    check("real_title", "checks:title_is_real", 3, path=DECK, boxed="$key.boxed"),
    check("inside", "checks:slide_fits", 3, path=DECK, slide="$key.off", needs=("contact_kept",)),
    check("contact_kept", "checks:contact_inside", 2, path=DECK, slide="$key.off", texts="$key.contact"),
    check("room_for_text", "checks:slide_has_room", 3, path=DECK, title="$key.full", size=14),
    check("tiny_gone", "slides_lack_text", 2, needs=("renamed",), path=DECK, texts="$key.tiny"),
    check("all_inside", "slides_within_bounds", 2, needs=("order",), tag="format", path=DECK),
    check("no_overlap", "slides_do_not_overlap", 2, needs=("order",), tag="format", path=DECK),
    check("readable", "slides_readable", 1, needs=("order",), tag="format", path=DECK, size=12),
    check("texts_kept", "checks:slides_have_lines", 2, needs=("order",), tag="care", path=DECK, slides="$key.lines"),
    check("notes_kept", "checks:slides_have_notes", 2, needs=("order",), tag="care", path=DECK, slides="$key.notes"),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]

# -- the quarterly deck brought up to date ------------------------------------------------------------------------------

QUARTER = "/out/quarter.pptx"
QUARTER_PROMPT = """
Please update our quarterly deck. /inbox/quarter.pptx is the deck of {old}, /inbox/figures.xlsx has the figures of {new} and {old} (sheet "Figures": region, revenue and orders of both quarters; amounts in thousands of euros). Save it as /out/quarter.pptx.

- Every "{old}" on the slides becomes "{new}", also in titles and notes.
- Slide 2: the lines "Revenue: EUR ... thousand", "Orders: ..." and "Best region: ..." get the figures of {new} (sums over all regions; the region with the highest revenue), the line "Change: ..." the change of the revenue against {old} in percent with one decimal and sign, like +4.2 % or -0.8 %.
- Slide 3: the table gets one row per region in the order of the workbook with Revenue, Orders and Change (as above), and a last row "Total". The number of regions has changed.
- Add a slide "Outlook" (layout "Title and Content") at the end with the lines in /inbox/outlook.txt and the last line of that file, which begins with "Say:", as speaker notes (without the mark).

Amounts without decimals and without separators, as in the old deck. Slide 4 stays as it is, apart from the name of the quarter.
"""
QUARTER_GOLDEN = (
    EDITOR
    + """
import openpyxl
sheet = openpyxl.load_workbook("/inbox/figures.xlsx")["Figures"]
rows = [row for row in sheet.iter_rows(min_row=3, max_col=5, values_only=True) if row[0]]
change = lambda now, then: f"{(now / then - 1) * 100:+.1f} %"
total = [sum(row[n] for row in rows) for n in range(1, 5)]
deck = Deck("/inbox/quarter.pptx")
for name in list(deck.parts):
    if re.match(r"ppt/(slides|notesSlides)/[a-zA-Z]+\\d+\\.xml", name):
        deck.parts[name] = deck.parts[name].replace("OLD", "NEW")
second, third = deck.slides[1], deck.slides[2]
facts = {"Revenue": f"EUR {total[0]:.0f} thousand", "Orders": f"{total[1]:.0f}", "Best region": max(rows, key=lambda row: row[1])[0], "Change": change(total[0], total[2])}
for label, text in facts.items():
    deck.parts[second] = re.sub(rf"<a:t>{label}: [^<]*</a:t>", f"<a:t>{label}: {text}</a:t>", deck.parts[second])
table = [["Region", "Revenue", "Orders", "Change"]] + [[row[0], f"{row[1]:.0f}", f"{row[2]:.0f}", change(row[1], row[3])] for row in rows]
table.append(["Total", f"{total[0]:.0f}", f"{total[1]:.0f}", change(total[0], total[2])])
deck.parts[third] = re.sub(r"<p:graphicFrame>.*?</p:graphicFrame>", table_xml(table), deck.parts[third], flags=re.S)
lines = [line.strip() for line in open("/inbox/outlook.txt") if line.strip()]
deck.add("Title and Content", "Outlook", lines[:-1], lines[-1].split(":", 1)[1].strip())
deck.save("/out/quarter.pptx")
"""
)


def quarter(rng: Random) -> Job:
    number, year = rng.randint(1, 4), rng.choice([2025, 2026])
    old = f"Q{number} {year}"
    new = f"Q{number % 4 + 1} {year + (number == 4)}"
    regions = rng.sample(["North", "South", "East", "West", "Export", "Online", "Islands"], rng.randint(5, 6))
    rows = [
        [
            name,
            float(rng.randrange(300, 4000)),
            float(rng.randrange(20, 400)),
            float(rng.randrange(300, 4000)),
            float(rng.randrange(20, 400)),
        ]
        for name in regions
    ]
    sheet = (
        Sheet("Figures")
        .rows("B1", [[new, None, old]], ("bold",) * 3)
        .rows("A2", [["Region", "Revenue", "Orders", "Revenue", "Orders"]], ("head",) * 5)
        .rows("A3", rows)
    )
    change = lambda now, then: f"{(now / then - 1) * 100:+.1f} %"  # noqa: E731 - three times
    total = [sum(row[n] for row in rows) for n in range(1, 5)]
    outlook = rng.sample(
        ["New warehouse opens in autumn", "Prices stay stable", "Two large tenders are open", "Recruiting remains difficult"], 3
    )
    said = f"Thank the team in {rng.choice(TOWNS)}"
    before = [
        ["Region", "Revenue", "Orders", "Change"],
        *[[name, str(rng.randrange(300, 3000)), str(rng.randrange(20, 300)), "+1.0 %"] for name in regions[:4]],
        ["Total", "8000", "700", "+1.0 %"],
    ]
    fixed = [
        f"Staff: {rng.randrange(40, 90)} people",
        f"Sites: {', '.join(rng.sample(TOWNS, 3))}",
        f"Survey of {old}: {rng.randrange(60, 95)} points",
    ]
    deck = pptx.deck(
        Slide("Title Slide", f"Quarterly review {old}", [rng.choice(PEOPLE)], notes=f"Welcome to the review of {old}."),
        Slide(
            "Title and Content",
            f"{old} at a glance",
            ["Revenue: EUR 8000 thousand", "Orders: 700", f"Best region: {rng.choice(regions)}", "Change: +1.0 %"],
        ),
        Slide("Title Only", f"Regions in {old}", table=before),
        Slide("Title and Content", "People", fixed, notes="Nothing new here."),
    )
    table = [
        ["Region", "Revenue", "Orders", "Change"],
        *[[row[0], f"{row[1]:.0f}", f"{row[2]:.0f}", change(row[1], row[3])] for row in rows],
    ]
    table.append(["Total", f"{total[0]:.0f}", f"{total[1]:.0f}", change(total[0], total[2])])
    key = {
        "titles": [f"Quarterly review {new}", f"{new} at a glance", f"Regions in {new}", "People", "Outlook"],
        "old": [old],
        "revenue": [f"Revenue: EUR {total[0]:.0f} thousand"],
        "orders": [f"Orders: {total[1]:.0f}"],
        "best": [f"Best region: {max(rows, key=lambda row: row[1])[0]}"],
        "change": [f"Change: {change(total[0], total[2])}"],
        "table": table,
        "outlook": outlook,
        "notes": [[5, [said]]],
        "first_notes": [[1, [f"Welcome to the review of {new}"]]],
        "people": [[4, [line.replace(old, new) for line in fixed]]],
    }
    files = {
        "/inbox/quarter.pptx": deck,
        "/inbox/figures.xlsx": workbook(sheet),
        "/inbox/outlook.txt": "".join(f"{line}\n" for line in [*outlook, f"Say: {said}"]).encode(),
    }
    return Job(
        QUARTER_PROMPT.format(old=old, new=new), files, QUARTER_GOLDEN.replace("OLD", old).replace("NEW", new), key, "medium"
    )


QUARTER_RUBRIC = [
    check("titles", "slide_titles", 4, needs=("renamed",), path=QUARTER, titles="$key.titles"),
    check("renamed", "slides_lack_text", 2, path=QUARTER, texts="$key.old"),
    check("notes_renamed", "checks:slides_have_notes", 1, path=QUARTER, slides="$key.first_notes"),
    check("revenue", "slide_has_text", 2, path=QUARTER, slide=2, texts="$key.revenue"),
    check("orders", "slide_has_text", 2, path=QUARTER, slide=2, texts="$key.orders"),
    check("best_region", "slide_has_text", 2, needs=("revenue",), path=QUARTER, slide=2, texts="$key.best"),
    check("change", "slide_has_text", 3, path=QUARTER, slide=2, texts="$key.change"),
    check("table", "checks:fresh_table", 6, path=QUARTER, slide=3, rows="$key.table"),
    check("one_table", "slide_objects", 1, needs=("table",), path=QUARTER, slide=3, kind="table", at_most=1),
    check("outlook", "checks:slide_lines", 3, path=QUARTER, slide=5, lines="$key.outlook"),
    check("outlook_notes", "checks:slides_have_notes", 2, path=QUARTER, slides="$key.notes"),
    check("people_kept", "checks:slides_have_lines", 1, needs=("renamed",), tag="care", path=QUARTER, slides="$key.people"),
    check("inside", "slides_within_bounds", 1, needs=("titles",), tag="format", path=QUARTER),
    check("filled", "slides_filled", 1, needs=("titles",), tag="format", path=QUARTER),
    check("inbox_changed", "checks:inbox_changed", -4, tag="care"),
]
