"""The tables of the tickets app, and what every Jira starts with: statuses, a workflow, priorities, link types."""

from typing import Any

SCHEMA = """
CREATE TABLE person (account_id TEXT PRIMARY KEY, display_name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, active INTEGER NOT NULL
  DEFAULT 1);
CREATE TABLE project (key TEXT PRIMARY KEY, id TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL DEFAULT '', lead TEXT,
  category TEXT, archived INTEGER NOT NULL DEFAULT 0, next_number INTEGER NOT NULL DEFAULT 1);
-- who may do what: read, write or admin; account `*` is everyone. A project without rows is open to all people for writing.
CREATE TABLE permission (project TEXT NOT NULL, account_id TEXT NOT NULL, level TEXT NOT NULL, UNIQUE (project, account_id));
CREATE TABLE issue_type (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL, subtask INTEGER NOT NULL
  DEFAULT 0);
CREATE TABLE status (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL, color TEXT NOT NULL);
-- a step of the workflow; project `` is every project that has no steps of its own, from_status `` is any status
CREATE TABLE transition (id TEXT NOT NULL, project TEXT NOT NULL DEFAULT '', name TEXT NOT NULL, from_status TEXT NOT NULL
  DEFAULT '',
  to_status TEXT NOT NULL, needs TEXT NOT NULL DEFAULT '', UNIQUE (project, id, from_status));
CREATE TABLE priority (name TEXT PRIMARY KEY, id TEXT NOT NULL, rank INTEGER NOT NULL);
CREATE TABLE resolution (name TEXT PRIMARY KEY, id TEXT NOT NULL);
CREATE TABLE link_type (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, inward TEXT NOT NULL, outward TEXT NOT NULL);
CREATE TABLE component (id TEXT PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, lead TEXT, UNIQUE (project, name));
CREATE TABLE version (id TEXT PRIMARY KEY, project TEXT NOT NULL, name TEXT NOT NULL, description TEXT, start_date TEXT,
  release_date TEXT,
  released INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0, UNIQUE (project, name));
CREATE TABLE field (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, type TEXT NOT NULL DEFAULT 'string');
CREATE TABLE board (id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL DEFAULT 'scrum', project TEXT NOT NULL);
CREATE TABLE sprint (id INTEGER PRIMARY KEY, board_id INTEGER NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'future',
  goal TEXT NOT NULL DEFAULT '', start_date TEXT, end_date TEXT);
CREATE TABLE issue (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, project TEXT NOT NULL, number INTEGER NOT NULL, type TEXT
  NOT NULL,
  summary TEXT NOT NULL, description TEXT, status TEXT NOT NULL, resolution TEXT, priority TEXT, assignee TEXT, reporter TEXT,
  parent TEXT,
  duedate TEXT, created TEXT NOT NULL, updated TEXT NOT NULL, resolved TEXT, original_s INTEGER, remaining_s INTEGER,
  time_spent_s INTEGER);
CREATE INDEX issue_project ON issue (project, number);
CREATE INDEX issue_parent ON issue (parent);
CREATE TABLE issue_label (issue TEXT NOT NULL, label TEXT NOT NULL, UNIQUE (issue, label));
CREATE TABLE issue_component (issue TEXT NOT NULL, component TEXT NOT NULL, UNIQUE (issue, component));
CREATE TABLE issue_version (issue TEXT NOT NULL, version TEXT NOT NULL, kind TEXT NOT NULL, UNIQUE (issue, version, kind));
CREATE TABLE issue_field (issue TEXT NOT NULL, field TEXT NOT NULL, value TEXT, UNIQUE (issue, field));
CREATE TABLE issue_sprint (issue TEXT NOT NULL, sprint_id INTEGER NOT NULL, UNIQUE (issue, sprint_id));
CREATE TABLE watcher (issue TEXT NOT NULL, account_id TEXT NOT NULL, UNIQUE (issue, account_id));
CREATE TABLE comment (id INTEGER PRIMARY KEY, issue TEXT NOT NULL, author TEXT, body TEXT NOT NULL, created TEXT NOT NULL,
  updated TEXT NOT NULL,
  visibility TEXT, public INTEGER);
CREATE INDEX comment_issue ON comment (issue);
CREATE TABLE issue_link (id INTEGER PRIMARY KEY, type TEXT NOT NULL, inward TEXT NOT NULL, outward TEXT NOT NULL, UNIQUE (type,
  inward, outward));
CREATE TABLE worklog (id INTEGER PRIMARY KEY, issue TEXT NOT NULL, author TEXT, comment TEXT NOT NULL DEFAULT '', time_spent TEXT
  NOT NULL,
  time_spent_s INTEGER NOT NULL, started TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL);
CREATE TABLE change (id INTEGER PRIMARY KEY, issue TEXT NOT NULL, author TEXT, created TEXT NOT NULL, field TEXT NOT NULL, before
  TEXT, after TEXT);
CREATE INDEX change_issue ON change (issue);

CREATE VIRTUAL TABLE issue_words USING fts5(summary, description, comments, tokenize = 'porter unicode61');
CREATE TRIGGER words_insert AFTER INSERT ON issue BEGIN
  INSERT INTO issue_words(rowid, summary, description, comments) VALUES (new.id, new.summary, coalesce(new.description, ''), '');
    END;
CREATE TRIGGER words_update AFTER UPDATE OF summary, description ON issue BEGIN
  UPDATE issue_words SET summary = new.summary, description = coalesce(new.description, '') WHERE rowid = new.id; END;
CREATE TRIGGER words_delete AFTER DELETE ON issue BEGIN DELETE FROM issue_words WHERE rowid = old.id; END;
CREATE TRIGGER words_comment AFTER INSERT ON comment BEGIN UPDATE issue_words SET comments = comments || char(10) || new.body
  WHERE rowid = (SELECT id FROM issue WHERE key = new.issue); END;
CREATE TRIGGER words_edited AFTER UPDATE OF body ON comment BEGIN UPDATE issue_words SET comments =
  (SELECT coalesce(group_concat(body, char(10)), '') FROM comment WHERE issue = new.issue)
  WHERE rowid = (SELECT id FROM issue WHERE key = new.issue); END;

INSERT INTO issue_type VALUES ('10000', 'Epic', 'A big user story that needs to be broken down.', 0),
  ('10001', 'Story', 'A user story.', 0), ('10002', 'Task', 'A small, distinct piece of work.', 0),
  ('10003', 'Subtask', 'A piece of work that is part of a larger task.', 1), ('10004', 'Bug', 'A problem or error.', 0),
  ('10005', 'Incident', 'An unplanned interruption or reduction of a service.', 0),
  ('10006', 'Service Request', 'A request for something to be provided.', 0);
INSERT INTO status VALUES ('10000', 'To Do', 'To Do', 'blue-gray'), ('10001', 'In Progress', 'In Progress', 'yellow'),
  ('10002', 'In Review', 'In Progress', 'yellow'), ('10003', 'Done', 'Done', 'green'), ('10004', 'Blocked', 'In Progress',
    'yellow'),
  ('10005', 'Waiting for customer', 'In Progress', 'yellow');
INSERT INTO transition (id, name, to_status, needs) VALUES ('11', 'To Do', 'To Do', ''), ('21', 'In Progress', 'In Progress', ''),
  ('31', 'In Review', 'In Review', ''), ('41', 'Done', 'Done', ''), ('51', 'Blocked', 'Blocked', ''),
  ('61', 'Wait for customer', 'Waiting for customer', '');
INSERT INTO priority VALUES ('Highest', '1', 1), ('High', '2', 2), ('Medium', '3', 3), ('Low', '4', 4), ('Lowest', '5', 5);
INSERT INTO resolution VALUES ('Done', '10000'), ('Fixed', '10001'), ('Won''t Do', '10002'), ('Duplicate', '10003'), ('Cannot
  Reproduce', '10004');
INSERT INTO link_type VALUES ('10000', 'Blocks', 'is blocked by', 'blocks'), ('10001', 'Cloners', 'is cloned by', 'clones'),
  ('10002', 'Duplicate', 'is duplicated by', 'duplicates'), ('10003', 'Relates', 'relates to', 'relates to'),
  ('10004', 'Problem/Incident', 'is caused by', 'causes');
INSERT INTO field VALUES ('customfield_10016', 'Story Points', 'number');
"""

ISSUE_FIELDS: dict[str, dict[str, Any]] = {
    name: {"id": name, "name": shown, "custom": False}
    for name, shown in {
        "summary": "Summary",
        "description": "Description",
        "status": "Status",
        "issuetype": "Issue Type",
        "priority": "Priority",
        "assignee": "Assignee",
        "reporter": "Reporter",
        "labels": "Labels",
        "components": "Components",
        "fixVersions": "Fix versions",
        "versions": "Affects versions",
        "duedate": "Due date",
        "resolution": "Resolution",
        "parent": "Parent",
        "created": "Created",
        "updated": "Updated",
        "comment": "Comment",
        "issuelinks": "Linked Issues",
        "timetracking": "Time tracking",
    }.items()
}
