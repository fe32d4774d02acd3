"""Seed data for the wiki: plain records, or a folder of Markdown files, one a page."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from sandlot.apps.atlassian import account_of
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ConfigError
from sandlot.core.types import Json


def load_wiki(app: LiveApp, seed: Mapping[str, Iterable[Json]]) -> dict[str, int]:
    """Fill the wiki and return the id of every page by `SPACE/Title`.

    - people: `display_name`, `email`, optional `account_id`.
    - spaces: `key`, `name`, optional `description`, `permissions` (`{"ada@example.com": "write", "*": "read"}`).
    - pages: `space`, `title`, `content` (Markdown), optional `parent` (a title in the same space, listed before), `author`,
      `created`,
      `labels`, `comments` (dicts with `author`, `body`, `created`), `read` and `edit` (emails of those who alone may), and
      `versions` (older versions: dicts with `content`, `author`, `at`, `message`).
    """
    for person in seed.get("people", ()):
        account = person.get("account_id") or account_of(person["email"])
        app.insert("person", account_id=account, display_name=person["display_name"], email=person["email"])
    for space in seed.get("spaces", ()):
        number = str(app.new_number() + 98_300)
        app.insert("space", key=space["key"], id=number, name=space["name"], description=space.get("description", ""))
        for who, level in space.get("permissions", {}).items():
            if level not in {"read", "write", "admin"}:
                raise ConfigError(f"wiki: space {space['key']} gives {who} the level `{level}`; use read, write or admin")
            app.insert("permission", space=space["key"], account_id="*" if who == "*" else _account(app, who), level=level)
    return {f"{page['space']}/{page['title']}": _load_page(app, page) for page in seed.get("pages", ())}


def _account(app: LiveApp, email: str | None) -> str | None:
    if not email:
        return None
    found = app.value("SELECT account_id FROM person WHERE email = ? COLLATE NOCASE", email)
    if found is None:
        raise ConfigError(f"wiki: no person `{email}`; list everyone under `people`")
    return str(found)


def _load_page(app: LiveApp, page: Json) -> int:
    space, title, created = page["space"], page["title"], page.get("created") or app.at
    if app.one("SELECT 1 FROM space WHERE key = ?", space) is None:
        raise ConfigError(f"wiki: the page `{title}` is in the space `{space}`, which is not listed under `spaces`")
    parent = None
    if page.get("parent"):
        parent = app.value("SELECT id FROM page WHERE space = ? AND title = ?", space, page["parent"])
        if parent is None:
            raise ConfigError(f"wiki: the page `{title}` is under `{page['parent']}`, which is not listed before it")
    versions: list[Json] = [*page.get("versions", ()), {"content": page["content"], "author": page.get("author"), "at": created}]
    last = versions[-1]
    position = app.value("SELECT coalesce(max(position), -1) + 1 FROM page WHERE space = ? AND parent IS ?", space, parent)
    author, first = _account(app, last.get("author")), versions[0]
    number = max(65_537, (app.value("SELECT max(id) FROM page") or 0) + 1)
    times = {
        "created": first.get("at") or created,
        "updated": last["at"],
        "creator": _account(app, first.get("author")),
        "author": author,
    }
    placed = {"space": space, "title": title, "parent": parent, "position": position, "version": len(versions)}
    app.insert("page", id=number, content=page["content"], **placed, **times)
    for count, old in enumerate(versions, start=1):
        texts = {"title": title, "content": old["content"], "at": old.get("at") or created, "message": old.get("message", "")}
        app.insert("page_version", page=number, number=count, author=_account(app, old.get("author")), **texts)
    for label in page.get("labels", ()):
        app.insert("label", page=number, name=label)
    for comment in page.get("comments", ()):
        at = comment.get("created") or created
        app.insert(
            "comment", page=number, author=_account(app, comment.get("author")), body=comment["body"], created=at, updated=at
        )
    for operation, who in (("read", page.get("read", ())), ("update", page.get("edit", ()))):
        for email in who:
            app.insert("restriction", page=number, operation=operation, account_id=_account(app, email))
    return number


def read_markdown_folder(folder: str | Path, space: str) -> list[Json]:
    """The pages of a folder of Markdown files, as `load_wiki` takes them.

    A folder with the name of a file holds the pages below it. A page's title is its first heading, or the name of the file.
    `ConfigError` if the folder has no such files.
    """
    root = Path(folder)
    titles: dict[Path, str] = {}
    pages: list[Json] = []
    for file in sorted(root.rglob("*.md"), key=lambda each: (len(each.parts), each)):
        text = file.read_text()
        head, _, rest = text.partition("\n")
        title = head.removeprefix("# ").strip() if head.startswith("# ") else file.stem.replace("-", " ")
        titles[file.with_suffix("")] = title
        page: Json = {"space": space, "title": title, "content": rest.lstrip("\n") if head.startswith("# ") else text}
        parent = titles.get(file.parent)
        pages.append(page | ({"parent": parent} if parent else {}))
    if not pages:
        raise ConfigError(f"`{folder}` has no Markdown files (*.md)")
    return pages
