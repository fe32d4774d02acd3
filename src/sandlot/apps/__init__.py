"""Ready parts of worlds: apps such as mail and chat, and what is needed to write one. See docs/guides/apps.md.

    MAIL                        mail, with the tools of the public Gmail server
    CHAT                        chat, with the tools of the public Slack server
    CALENDAR                    a calendar, with the tools of the public Google Calendar server
    DIRECTORY                   an HR directory, with tools of a public BambooHR server and own ones
    TICKETS                     issues in projects, with the tools of the public Jira server
    WIKI                        pages in spaces, with the tools of the public Confluence server
    CRM                         customers, with the tools of the public HubSpot server
    ACCOUNTING                  books, with the tools of the public Xero server
    CODE                        repositories over real git objects, with the tools of the public GitHub server
    FILES                       files and folders, with the tools of the public filesystem server
    WAITING                     tools that let time pass
    Browser, BROWSER_IMAGE      a real Chromium, with the tools of the public Playwright server
    Desktop, desktop_image      an X server, a window manager and real applications: screen, mouse, keyboard, accessibility tree
    SitePort                    the pages of apps, for a browser of your own
    load_NAME                   seed data for each of them: `load_mail`, `load_tickets`, ...
    load_mbox, load_slack_export, load_ics
    read_jira_csv, read_xero_csv, read_hubspot_csv, read_markdown_folder, read_folder
                                files that the products export
    App, LiveApp                write an app in one file; what its tools act on
    Colleague, KnownFact        people who answer messages, by script
    FinalApp, RowChange         what checks see of an app; one row that changed
    PageRequest, PageResponse   the pages of an app

Read `app.py` first (the declaration), then `live.py` (an app in a world), `journal.py` (how every change is recorded) and
`final.py` (an app as evidence).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandlot.apps.accounting import ACCOUNTING as ACCOUNTING
    from sandlot.apps.accounting.loading import load_accounting as load_accounting
    from sandlot.apps.accounting.loading import read_xero_csv as read_xero_csv
    from sandlot.apps.app import App as App
    from sandlot.apps.browser.browser import BROWSER_IMAGE as BROWSER_IMAGE
    from sandlot.apps.browser.browser import Browser as Browser
    from sandlot.apps.browser.browser import SitePort as SitePort
    from sandlot.apps.calendar.load import load_calendar as load_calendar
    from sandlot.apps.calendar.load import load_ics as load_ics
    from sandlot.apps.calendar.tools import CALENDAR as CALENDAR
    from sandlot.apps.chat.load import load_chat as load_chat
    from sandlot.apps.chat.load import load_slack_export as load_slack_export
    from sandlot.apps.chat.tools import CHAT as CHAT
    from sandlot.apps.code import CODE as CODE
    from sandlot.apps.code.loading import checkout as checkout
    from sandlot.apps.code.loading import load_code as load_code
    from sandlot.apps.colleague import Colleague as Colleague
    from sandlot.apps.colleague import KnownFact as KnownFact
    from sandlot.apps.crm import CRM as CRM
    from sandlot.apps.crm.loading import load_crm as load_crm
    from sandlot.apps.crm.loading import read_hubspot_csv as read_hubspot_csv
    from sandlot.apps.desktop.desktop import Desktop as Desktop
    from sandlot.apps.desktop.desktop import desktop_image as desktop_image
    from sandlot.apps.directory import DIRECTORY as DIRECTORY
    from sandlot.apps.directory.loading import load_directory as load_directory
    from sandlot.apps.files import FILES as FILES
    from sandlot.apps.files.loading import load_files as load_files
    from sandlot.apps.files.loading import read_folder as read_folder
    from sandlot.apps.final import FinalApp as FinalApp
    from sandlot.apps.final import FinalApps as FinalApps
    from sandlot.apps.journal import RowChange as RowChange
    from sandlot.apps.live import LiveApp as LiveApp
    from sandlot.apps.live import LiveApps as LiveApps
    from sandlot.apps.mail.load import load_mail as load_mail
    from sandlot.apps.mail.load import load_mbox as load_mbox
    from sandlot.apps.mail.tools import MAIL as MAIL
    from sandlot.apps.pages import PageRequest as PageRequest
    from sandlot.apps.pages import PageResponse as PageResponse
    from sandlot.apps.pages import render as render
    from sandlot.apps.recorded import RecordedServer as RecordedServer
    from sandlot.apps.tickets import TICKETS as TICKETS
    from sandlot.apps.tickets.loading import load_tickets as load_tickets
    from sandlot.apps.tickets.loading import read_jira_csv as read_jira_csv
    from sandlot.apps.waiting import WAITING as WAITING
    from sandlot.apps.wiki import WIKI as WIKI
    from sandlot.apps.wiki.loading import load_wiki as load_wiki
    from sandlot.apps.wiki.loading import read_markdown_folder as read_markdown_folder

_FRONT_DOOR = {
    "CALENDAR": "calendar.tools",
    "CHAT": "chat.tools",
    "DIRECTORY": "directory",
    "MAIL": "mail.tools",
    "ACCOUNTING": "accounting",
    "TICKETS": "tickets",
    "WAITING": "waiting",
    "WIKI": "wiki",
    "CODE": "code",
    "CRM": "crm",
    "FILES": "files",
    "App": "app",
    "BROWSER_IMAGE": "browser.browser",
    "Browser": "browser.browser",
    "Colleague": "colleague",
    "Desktop": "desktop.desktop",
    "FinalApp": "final",
    "FinalApps": "final",
    "KnownFact": "colleague",
    "LiveApp": "live",
    "LiveApps": "live",
    "PageRequest": "pages",
    "PageResponse": "pages",
    "RecordedServer": "recorded",
    "RowChange": "journal",
    "SitePort": "browser.browser",
    "desktop_image": "desktop.desktop",
    "load_accounting": "accounting.loading",
    "checkout": "code.loading",
    "load_code": "code.loading",
    "load_crm": "crm.loading",
    "load_calendar": "calendar.load",
    "load_ics": "calendar.load",
    "load_chat": "chat.load",
    "load_slack_export": "chat.load",
    "load_directory": "directory.loading",
    "load_files": "files.loading",
    "load_mail": "mail.load",
    "load_mbox": "mail.load",
    "load_tickets": "tickets.loading",
    "load_wiki": "wiki.loading",
    "read_folder": "files.loading",
    "read_hubspot_csv": "crm.loading",
    "read_jira_csv": "tickets.loading",
    "read_markdown_folder": "wiki.loading",
    "read_xero_csv": "accounting.loading",
    "render": "pages",
}

__all__ = list(_FRONT_DOOR)  # pyright: ignore[reportUnsupportedDunderAll] - lazy


def __getattr__(name: str) -> Any:
    if name not in _FRONT_DOOR:
        raise AttributeError(f"module `sandlot.apps` has no name `{name}`; it has: {', '.join(_FRONT_DOOR)}")
    value = getattr(import_module(f"sandlot.apps.{_FRONT_DOOR[name]}"), name)
    globals()[name] = value
    return value
