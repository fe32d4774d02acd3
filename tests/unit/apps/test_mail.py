"""Mail: what the tools of the public Gmail server do here."""

import json
import re
from pathlib import Path

import pytest

from sandlot.apps.colleague import Colleague, KnownFact
from sandlot.apps.live import LiveApps
from sandlot.apps.mail.load import load_mail, load_mbox
from sandlot.apps.mail.search import find_messages
from sandlot.apps.mail.tools import MAIL
from sandlot.apps.waiting import WAITING
from sandlot.core.errors import AuthorError
from worlds.apps import AppWorld

ADA, BOB, EVE = "ada@corp.example", "bob@corp.example", "eve@corp.example"
SALARY = "The salary of Bob is 91,000."


def fill(apps: LiveApps) -> None:
    load_mail(
        apps.mail,
        accounts={ADA: "Ada Hale", BOB: "Bob Ward", EVE: "Eve Lin"},
        messages=[
            {
                "sender": BOB,
                "to": [ADA],
                "subject": "Budget for March",
                "body": "The draft budget.",
                "at": "2026-01-02T10:00:00Z",
            },
            {"sender": EVE, "to": [ADA, BOB], "subject": "Lunch", "body": "Pizza or pasta?", "at": "2026-01-03T10:00:00Z"},
            {
                "sender": EVE,
                "to": [BOB],
                "subject": "Payroll",
                "body": SALARY,
                "at": "2026-01-04T10:00:00Z",
                "header_id": "<pay@x>",
            },
            {"sender": "shop@out.example", "to": [ADA], "subject": "Offer", "html": "<b>Buy</b>", "at": "2026-01-04T11:00:00Z"},
        ],
    )


@pytest.fixture
def world() -> AppWorld:
    return AppWorld([MAIL, WAITING], fill, actor=ADA)


async def ids(world: AppWorld, query: str, most: int = 100) -> list[str]:
    return re.findall(r"^ID: (\w+)$", await world.call("search_emails", query=query, maxResults=most), re.MULTILINE)


async def subjects(world: AppWorld, query: str) -> list[str]:
    return re.findall(r"^Subject: (.*)$", await world.call("search_emails", query=query, maxResults=100), re.MULTILINE)


async def test_reading_shows_a_mail_as_the_public_server_does(world: AppWorld):
    (message,) = await ids(world, "from:bob")
    text = await world.call("read_email", messageId=message)
    assert text == (
        f"Thread ID: {message}\nSubject: Budget for March\nFrom: Bob Ward <bob@corp.example>\nTo: ada@corp.example\n"
        "Date: Fri, 02 Jan 2026 10:00:00 +0000\n\nThe draft budget."
    )
    (offer,) = await ids(world, "subject:offer")
    assert "[Note: This email is HTML-formatted. Plain text version not available.]\n\n<b>Buy</b>" in await world.call(
        "read_email", messageId=offer
    )


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["Offer", "Lunch", "Budget for March"]),
        ("budget", ["Budget for March"]),
        ("from:eve", ["Lunch"]),
        ("from:(bob OR eve)", ["Lunch", "Budget for March"]),
        ("from:bob OR from:shop", ["Offer", "Budget for March"]),
        ("{from:bob from:shop}", ["Offer", "Budget for March"]),
        ("-from:eve", ["Offer", "Budget for March"]),
        ('"draft budget"', ["Budget for March"]),
        ('"budget draft"', []),
        ('subject:"for march"', ["Budget for March"]),
        ("to:bob", ["Lunch"]),
        ("after:2026/01/03 before:2026/01/04", ["Lunch"]),
        ("older_than:2d", ["Budget for March"]),
        ("newer_than:1d", ["Offer"]),
        ("is:unread", ["Offer", "Lunch", "Budget for March"]),
        ("is:read", []),
        ("in:sent", []),
        ("has:attachment", []),
        ("pizza pasta", ["Lunch"]),
        ("(pizza OR draft) -lunch", ["Budget for March"]),
        ("larger:5", ["Offer", "Lunch", "Budget for March"]),
        ("larger:1M", []),
        ("salary", []),
        ("rfc822msgid:pay@x", []),
    ],
)
async def test_the_search_language(world: AppWorld, query: str, found: list[str]):
    assert await subjects(world, query) == found


async def test_sending_delivers_to_every_mailbox_and_threads_the_answer(world: AppWorld):
    sent = await world.call("send_email", to=[BOB], cc=[EVE], bcc=["boss@out.example"], subject="Plan", body="See you at 10.")
    own = sent.removeprefix("Email sent successfully with ID: ")
    assert await ids(world, "in:sent") == [own]
    world.apps.actor = BOB
    (his,) = await ids(world, "subject:plan is:unread")
    assert his != own
    assert "To: bob@corp.example" in await world.call("read_email", messageId=his)
    await world.call("send_email", to=[ADA], subject="Re: Plan", body="Fine.", threadId=his, inReplyTo=his)
    world.apps.actor = ADA
    (answer,) = await ids(world, "from:bob fine")
    assert (await world.call("read_email", messageId=answer)).startswith(f"Thread ID: {own}\n")


async def test_an_unknown_colleague_bounces_and_outside_addresses_do_not(world: AppWorld):
    await world.call("send_email", to=["nobdy@corp.example", "x@out.example"], subject="Hi", body="x")
    assert await subjects(world, "from:mailer-daemon") == ["Delivery Status Notification (Failure): Hi"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"to": ["no address"], "subject": "s", "body": "b"}, "Error: Recipient email address is invalid: no address"),
        ({"to": [], "subject": "s", "body": "b"}, "Error: Recipient address required"),
        ({"to": [BOB], "subject": "s", "body": "b", "threadId": "nope"}, "Error: Requested entity was not found."),
        ({"to": [BOB], "subject": "s", "body": "b", "attachments": ["/no.txt"]}, "Error: File does not exist: /no.txt"),
    ],
)
async def test_a_mail_that_cannot_be_sent_says_why_and_leaves_nothing(world: AppWorld, arguments: dict[str, object], text: str):
    result = await world.result("send_email", **arguments)
    assert (result.text, result.error) == (text, True)
    assert world.apps.journal == []


async def test_wrong_arguments_are_reported_as_zod_does(world: AppWorld):
    text = await world.call("read_email")
    assert json.loads(text.removeprefix("Error: ")) == [
        {"code": "invalid_type", "expected": "string", "received": "undefined", "path": ["messageId"], "message": "Required"}
    ]
    text = await world.call("send_email", to=[1], subject="s", body="b", mimeType="x")
    assert [issue["path"] for issue in json.loads(text.removeprefix("Error: "))] == [["to", 0], ["mimeType"]]


async def test_a_mailbox_is_seen_only_by_its_owner(world: AppWorld):
    (theirs,) = find_messages(world.apps.mail, BOB, "salary", most=5)
    for query in ("salary", "in:anywhere", f"to:{BOB} in:anywhere", "label:INBOX OR salary", "') OR 1=1 --", 'x" OR owner:"bob'):
        assert theirs not in await ids(world, query)
        assert SALARY not in await world.call("search_emails", query=query)
    for tool in ("read_email", "delete_email", "modify_email"):
        assert await world.call(tool, messageId=theirs, addLabelIds=["STARRED"]) == "Error: Requested entity was not found."
    text = await world.call("batch_delete_emails", messageIds=[theirs])
    assert text.startswith("Batch delete operation complete.\nSuccessfully deleted: 0 messages\nFailed to delete: 1 messages")
    assert (
        await world.call("send_email", to=[ADA], subject="s", body="b", threadId=theirs)
        == "Error: Requested entity was not found."
    )
    assert world.apps.journal == []
    # naming another's mail as answered does not show it, nor put the sender into that thread's mailbox copy
    await world.call("send_email", to=[ADA], subject="s", body="b", inReplyTo="<pay@x>")
    assert SALARY not in await world.call("search_emails", query="in:anywhere")


async def test_labels(world: AppWorld):
    made = await world.call("create_label", name="Clients")
    label = re.search(r"ID: (\S+)", made)
    assert label
    assert (
        await world.call("create_label", name="clients") == 'Error: Label "clients" already exists. Please use a different name.'
    )
    (message,) = await ids(world, "budget")
    await world.call("modify_email", messageId=message, addLabelIds=[label[1]], removeLabelIds=["INBOX", "UNREAD"])
    assert (
        await ids(world, "label:clients") == await ids(world, "in:archive -in:sent") == await ids(world, "is:read") == [message]
    )
    assert await world.call("modify_email", messageId=message, addLabelIds=["Label_99"]) == "Error: Invalid label: Label_99"
    listed = await world.call("list_email_labels")
    assert listed.startswith("Found 15 labels (14 system, 1 user):\n\nSystem Labels:\nID: CHAT\nName: CHAT\n")
    assert await world.call("delete_label", id="INBOX") == (
        'Error: Failed to delete label: Cannot delete system label with ID "INBOX".'
    )
    assert await world.call("delete_label", id=label[1]) == 'Label "Clients" deleted successfully.'
    assert await ids(world, "label:clients") == []


async def test_a_filter_acts_on_mail_that_arrives(world: AppWorld):
    text = await world.call("create_filter", criteria={"from": "news@out.example"}, action={"removeLabelIds": ["INBOX"]})
    assert text.endswith("Criteria: from: news@out.example\nActions: removeLabelIds: INBOX")
    for sender in ("news@out.example", "friend@out.example"):
        world.apps.mail.schedule("mail_arrives", 60, sender=sender, to=[ADA], subject="Hello", body="x")
    await world.call("wait", minutes=2)
    assert len(await ids(world, "subject:hello")) == 2
    assert len(await ids(world, "subject:hello in:inbox")) == 1


async def test_an_attachment_travels_through_the_files_of_the_world(world: AppWorld):
    await world.apps.mail.world.write("/out/report.txt", b"42" * 1000)
    await world.call("send_email", to=[BOB], subject="Report", body="here", attachments=["/out/report.txt"])
    world.apps.actor = BOB
    (message,) = await ids(world, "has:attachment filename:report")
    found = re.search(r"- report.txt \(text/plain, 2 KB, ID: (\S+)\)", await world.call("read_email", messageId=message))
    assert found
    text = await world.call("download_attachment", messageId=message, attachmentId=found[1], savePath="/tmp/in")
    assert text == "Attachment downloaded successfully:\nFile: report.txt\nSize: 2000 bytes\nSaved to: /tmp/in/report.txt"
    assert await world.apps.mail.world.read("/tmp/in/report.txt") == b"42" * 1000
    below_a_file = await world.call(
        "download_attachment", messageId=message, attachmentId=found[1], savePath="/tmp/in/report.txt", filename="x"
    )
    assert below_a_file.startswith("Failed to download attachment: ")


async def test_a_colleague_tells_a_fact_only_when_asked_for_it(world: AppWorld):
    fact = KnownFact(("invoice|bill", "total|amount"), "It is 812 EUR.")
    world.apps.colleagues.append(Colleague(email=EVE, facts=(fact,), unsure="Which one do you mean?", minutes=30))
    await world.call("send_email", to=[EVE], subject="Hello", body="Anything new about that invoice?")
    await world.call("wait", minutes=29)
    assert await subjects(world, "from:eve newer_than:1d") == []
    await world.call("wait", minutes=2)
    assert await subjects(world, "from:eve which") == ["Re: Hello"]
    await world.call("send_email", to=[EVE], subject="Invoice", body="What is the TOTAL amount?")
    await world.call("wait", minutes=31)
    assert len(await ids(world, "812")) == 1
    assert {change.cause for change in world.apps.journal if change.actor == ""} == {"event"}


def test_an_mbox_file_is_loaded(tmp_path: Path):
    """In the form that `git format-patch --stdout --thread --attach` writes."""
    (tmp_path / "patches.mbox").write_text(
        "From 1111111111111111111111111111111111111111 Mon Sep 17 00:00:00 2001\n"
        "Message-ID: <cover.1767350000.git.bob@corp.example>\nFrom: =?UTF-8?q?Bob=20W=C3=A4rd?= <bob@corp.example>\n"
        "Date: Fri, 2 Jan 2026 11:00:00 +0100\nSubject: [PATCH 1/2] Fix the\n door\nTo: Ada Hale <ada@corp.example>,\n"
        '    eve@corp.example\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="----b"\n\n'
        "------b\nContent-Type: text/plain; charset=UTF-8; format=fixed\nContent-Transfer-Encoding: 8bit\n\nIt was open.\n\n"
        '------b\nContent-Type: text/x-patch; name="0001.patch"\nContent-Disposition: attachment; filename="0001.patch"\n\n'
        "--- a/door\n+++ b/door\n\n------b--\n\n"
        "From 2222222222222222222222222222222222222222 Mon Sep 17 00:00:00 2001\n"
        "Message-ID: <2.git.bob@corp.example>\nIn-Reply-To: <cover.1767350000.git.bob@corp.example>\nFrom: bob@corp.example\n"
        "Date: Fri, 2 Jan 2026 11:00:01 +0100\nSubject: [PATCH 2/2] Paint it\nTo: ada@corp.example\n"
        "Status: RO\n\nBlue.\n\n>From here on.\n"
    )

    def filled(apps: LiveApps) -> None:
        load_mail(apps.mail, accounts={ADA: "Ada", EVE: "Eve"})
        assert load_mbox(apps.mail, tmp_path / "patches.mbox") == 2

    mail = AppWorld([MAIL], filled).apps.mail
    rows = mail.rows(
        "SELECT owner, thread, subject, body, at FROM message JOIN content ON content.id = content ORDER BY message.rowid"
    )
    assert [(row["owner"], row["subject"], row["at"]) for row in rows] == [
        (ADA, "[PATCH 1/2] Fix the door", "2026-01-02T10:00:00Z"),
        (EVE, "[PATCH 1/2] Fix the door", "2026-01-02T10:00:00Z"),
        (ADA, "[PATCH 2/2] Paint it", "2026-01-02T10:00:01Z"),
    ]
    assert rows[0]["thread"] == rows[2]["thread"]
    assert rows[0]["body"].strip() == "It was open."
    assert mail.value("SELECT filename FROM attachment") == "0001.patch"
    assert mail.value("SELECT count(*) FROM message_label WHERE label = 'UNREAD'") == 2  # the last one has the status read
    (tmp_path / "bad.mbox").write_text("From x\nFrom: a@b.example\nSubject: no date\n\nx\n")
    with pytest.raises(AuthorError, match="no valid `Date`"):
        load_mbox(mail, tmp_path / "bad.mbox")


async def test_only_the_sender_finds_blind_copies(world: AppWorld):
    await world.call("send_email", to=[BOB], bcc=[EVE], subject="Raise", body="Soon.")
    assert await subjects(world, "bcc:eve") == ["Raise"]
    for reader in (BOB, EVE):
        world.apps.actor = reader
        assert await subjects(world, "subject:raise") == ["Raise"]
        for query in ("bcc:eve", "bcc:(eve OR ada)", "bcc:me", "subject:raise bcc:e"):
            assert await subjects(world, query) == []


HUGE_QUERIES = ["a OR " * 150 + "pizza", "a OR " * 150 + "(pizza)", ") (pizza) " * 60, "pizza" + "\n" * 1_000_000]


@pytest.mark.parametrize("query", HUGE_QUERIES)
async def test_a_huge_query_finds_what_it_says(world: AppWorld, query: str):
    assert await subjects(world, query) == ["Lunch"]


@pytest.mark.parametrize("query", HUGE_QUERIES[:3])
async def test_a_mail_arrives_whatever_the_filters_say(world: AppWorld, query: str):
    made = await world.result("create_filter", criteria={"query": query}, action={"addLabelIds": ["STARRED"]})
    assert not made.error, made.text
    world.apps.mail.schedule("mail_arrives", 60, sender="boss@out.example", to=(ADA,), subject="New", body="More pizza.")
    await world.call("wait", minutes=2)
    assert await subjects(world, "is:starred") == ["New"]
