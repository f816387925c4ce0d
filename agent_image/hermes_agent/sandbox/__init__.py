"""The agent's side of the sandbox: an async, typed client of docs/exec-protocol.md.

`Sandbox` is all that tools need. The other side is hostile by assumption: sizes are bounded, answers are checked,
every wait has an end.
"""

from hermes_agent.sandbox.client import Sandbox
from hermes_agent.sandbox.errors import (
    AlreadyThere,
    Busy,
    Invalid,
    IsDirectory,
    NotAFile,
    NotDirectory,
    NotFound,
    OutsideWorkspace,
    PermissionDenied,
    ProtocolError,
    QuotaExceeded,
    SandboxError,
    SandboxGone,
    SandboxTimeout,
    TooLarge,
)
from hermes_agent.sandbox.execution import ExecResult, ExecStream, Fd, Output
from hermes_agent.sandbox.messages import (
    Entry,
    ExecRequest,
    Exit,
    FileInfo,
    Hit,
    Listing,
    LogRange,
    ProcessInfo,
    Status,
    TerminalSize,
    TreeEntry,
    Written,
)
from hermes_agent.sandbox.processes import Log, Processes
from hermes_agent.sandbox.searching import SearchQuery, SearchResult
from hermes_agent.sandbox.trees import Settling

__all__ = [
    "AlreadyThere",
    "Busy",
    "Entry",
    "ExecRequest",
    "ExecResult",
    "ExecStream",
    "Exit",
    "Fd",
    "FileInfo",
    "Hit",
    "Invalid",
    "IsDirectory",
    "Listing",
    "Log",
    "LogRange",
    "NotAFile",
    "NotDirectory",
    "NotFound",
    "Output",
    "OutsideWorkspace",
    "PermissionDenied",
    "ProcessInfo",
    "Processes",
    "ProtocolError",
    "QuotaExceeded",
    "Sandbox",
    "SandboxError",
    "SandboxGone",
    "SandboxTimeout",
    "SearchQuery",
    "SearchResult",
    "Settling",
    "Status",
    "TerminalSize",
    "TooLarge",
    "TreeEntry",
    "Written",
]
