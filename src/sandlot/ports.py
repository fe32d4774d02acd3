"""What you implement to plug in a part of your own, and the records that parts exchange.

Everything here is a `Protocol` or a record, imported from `sandlot.ports`; nothing has to be subclassed. `sandlot.testing` has
the suites that implementations pass. The reference is docs/reference/ports.md, and docs/guides/own-parts.md has examples.

An agent loop (`--harness module:attribute`):
    Harness, Hook                         plays a whole rollout; sees every turn of it
    Session, Workplace, Step              what a harness acts on, and what came back
    Trace, Node, Event, Tokens, Usage     what it appends to

A model (entry point group `sandlot.models`):
    Policies, Policy                      one per run; one per rollout: takes a turn
    ChatModel, Reply                      text in, text out; `chat_policies` makes policies from one
    TokenModel, Sampled, Renderer         token ids in and out; `token_policies` makes policies from one
    ModelConfig, AgentConfig, Sampling, Spend    what its opener is given
    User, Users, UserTurn                 plays the environment's user

A sandbox backend (entry point group `sandlot.backends`):
    Backend, Sandbox, Snapshot, Files, Process, Stream, Command, Completed, Survey
    open_backend                          opens another backend by its name, for one that stands on it

A judge (entry point group `sandlot.judges`):
    Judge, Judgement                      answers judge checks

Tools, a tracker, a store:
    Tool, ToolSource, ToolSpec            what an agent can call
    Tracker                               receives the figures of a training run
    Blobs                                 keeps bytes by their hash

Environments in another format (entry point group `sandlot.exporters`):
    Exporter                              writes an environment, for `sandlot export KIND ENV`
    EnvironmentExport, LeftOut            what was written and what was not

Tasks of another format (entry point group `sandlot.importers`):
    Importer                              writes a source as a folder environment, for `sandlot import KIND SOURCE`
    ImportReport, ImportedTask, LeftOut   what was taken and what was not

Logs of another framework (entry point group `sandlot.log_readers`):
    LogReader                             reads a log, for `sandlot import KIND FILE`
    LoggedRun, LoggedRollout              what it holds

Code of others, for `sandlot.audit`:
    SubjectOptions                        a plain Python grader or a Gymnasium environment

Messages:
    Message, Role, Text, Reasoning, ImagePart, ToolCall, ToolResult

Errors a part may raise:
    ConfigError, SandboxError, ModelError, GradeError, HarnessError, StoppedByHook
"""

from sandlot.audit.subjects.named import SubjectOptions
from sandlot.core.errors import ConfigError, GradeError, HarnessError, ModelError, SandboxError, StoppedByHook
from sandlot.core.ports.grading import Judge, Judgement
from sandlot.core.ports.importer import ImportedTask, Importer, ImportReport, LeftOut
from sandlot.core.ports.log import LoggedRollout, LoggedRun, LogReader
from sandlot.core.ports.model import ChatModel, Renderer, Reply, Sampled, Sampling, TokenModel
from sandlot.core.ports.sandbox import Backend, Command, Completed, Files, Process, Sandbox, Snapshot, Stream, Survey
from sandlot.core.ports.session import Harness, Hook, Policies, Policy, Session, Step, User, Users, UserTurn, Workplace
from sandlot.core.ports.store import Blobs
from sandlot.core.ports.world import Tool, ToolSource, ToolSpec
from sandlot.core.trace import Event, ImagePart, Message, Node, Reasoning, Text, Tokens, ToolCall, ToolResult, Trace, Usage
from sandlot.core.types import Role
from sandlot.interop.exporting import EnvironmentExport, Exporter
from sandlot.model.endpoint.spend import Spend
from sandlot.model.policy.chat import chat_policies
from sandlot.model.policy.tokens import token_policies
from sandlot.observe.trackers.tracker import Tracker
from sandlot.wiring.config import AgentConfig, ModelConfig
from sandlot.wiring.parts import open_backend

__all__ = [
    "AgentConfig",
    "Backend",
    "Blobs",
    "ChatModel",
    "Command",
    "Completed",
    "ConfigError",
    "EnvironmentExport",
    "Event",
    "Exporter",
    "Files",
    "GradeError",
    "Harness",
    "HarnessError",
    "Hook",
    "ImagePart",
    "ImportReport",
    "ImportedTask",
    "Importer",
    "Judge",
    "Judgement",
    "LeftOut",
    "LogReader",
    "LoggedRollout",
    "LoggedRun",
    "Message",
    "ModelConfig",
    "ModelError",
    "Node",
    "Policies",
    "Policy",
    "Process",
    "Reasoning",
    "Renderer",
    "Reply",
    "Role",
    "Sampled",
    "Sampling",
    "Sandbox",
    "SandboxError",
    "Session",
    "Snapshot",
    "Spend",
    "Step",
    "StoppedByHook",
    "Stream",
    "SubjectOptions",
    "Survey",
    "Text",
    "TokenModel",
    "Tokens",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolSource",
    "ToolSpec",
    "Trace",
    "Tracker",
    "Usage",
    "User",
    "UserTurn",
    "Users",
    "Workplace",
    "chat_policies",
    "open_backend",
    "token_policies",
]
