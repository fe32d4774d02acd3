"""The apps of the firm, and which of their tools the desk has."""
# ruff: noqa: E501 - records, wordings and tables stand on one line

from sandlot.apps import ACCOUNTING, CALENDAR, CHAT, CRM, DIRECTORY, MAIL, TICKETS, WAITING, WIKI

APPS = (
    MAIL.offering("search_emails", "read_email", "send_email", "draft_email", "modify_email", "delete_email", "list_email_labels"),
    CHAT,
    CALENDAR.offering("list-events", "search-events", "get-event", "get-freebusy", "create-event", "update-event", "delete-event"),
    TICKETS.offering(
        "jira_search", "jira_get_issue", "jira_create_issue", "jira_update_issue", "jira_add_comment", "jira_get_transitions",
        "jira_transition_issue", "jira_assign_issue", "jira_get_project_versions", "jira_update_version", "jira_create_issue_link",
    ),
    ACCOUNTING.offering(
        "list-contacts", "list-invoices", "list-payments", "list-accounts", "list-tax-rates", "list-aged-receivables-by-contact",
        "list-aged-payables-by-contact", "list-trial-balance", "list-credit-notes", "create-payment", "create-credit-note", "create-invoice", "update-contact",
    ),
    DIRECTORY.offering(
        "bamboo_find_employee", "bamboo_team_info", "bamboo_whos_out", "bamboo_time_off_requests", "hr_get_employee", "hr_list_time_off",
        "hr_decide_time_off", "hr_update_employee",
    ),
    CRM.offering(
        "hubspot-search-objects", "hubspot-batch-read-objects", "hubspot-batch-update-objects", "hubspot-list-associations", "hubspot-list-properties",
        "hubspot-create-engagement",
    ),
    WIKI.offering(
        "confluence_search", "confluence_get_page", "confluence_get_space_page_tree", "confluence_create_page", "confluence_update_page",
        "confluence_add_comment",
    ),
    WAITING,
)  # fmt: skip
