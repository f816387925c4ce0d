"""What can go wrong in a sandbox, each with the plain sentence a model or a person reads."""

from __future__ import annotations

from hermes_contracts.errors import ErrorCode, HermesError


class SandboxError(HermesError):
    """Anything the sandbox refused or failed at; `code` is what the rest of the agent acts on."""

    error_code = ErrorCode.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(self.error_code, message, retryable=self.error_code is ErrorCode.UNAVAILABLE)


class NotFound(SandboxError):
    """No such file, directory, program or background process."""

    error_code = ErrorCode.NOT_FOUND


class IsDirectory(SandboxError):
    """A file was expected and a directory is there."""

    error_code = ErrorCode.INVALID


class NotDirectory(SandboxError):
    """A directory was expected and something else is there."""

    error_code = ErrorCode.INVALID


class NotAFile(SandboxError):
    """A device, pipe or socket: it could never end."""

    error_code = ErrorCode.INVALID


class AlreadyThere(SandboxError):
    """The name is taken, or the directory is not empty."""

    error_code = ErrorCode.CONFLICT


class TooLarge(SandboxError):
    """More than this call takes or gives."""

    error_code = ErrorCode.TOO_LARGE


class QuotaExceeded(SandboxError):
    """The workspace or the disk is full."""

    error_code = ErrorCode.TOO_LARGE


class PermissionDenied(SandboxError):
    """The sandbox's user may not do this."""

    error_code = ErrorCode.FORBIDDEN


class OutsideWorkspace(SandboxError):
    """The path leads out of the workspace and /tmp, directly or through a link."""

    error_code = ErrorCode.FORBIDDEN


class Invalid(SandboxError):
    """The request itself is wrong."""

    error_code = ErrorCode.INVALID


class Busy(SandboxError):
    """A limit on commands, processes or waiting input is reached."""

    error_code = ErrorCode.UNAVAILABLE


class SandboxTimeout(SandboxError):
    """The sandbox did not answer in time."""

    error_code = ErrorCode.TIMEOUT


class SandboxGone(SandboxError):
    """The connection is lost: the sandbox restarted, or is not there. What ran has been killed; files are kept."""

    error_code = ErrorCode.UNAVAILABLE


class ProtocolError(SandboxGone):
    """The sandbox sent something it may not; the connection was closed."""


BY_CODE: dict[str, type[SandboxError]] = {
    "not_found": NotFound,
    "is_directory": IsDirectory,
    "not_directory": NotDirectory,
    "not_a_file": NotAFile,
    "exists": AlreadyThere,
    "not_empty": AlreadyThere,
    "too_large": TooLarge,
    "quota_exceeded": QuotaExceeded,
    "permission_denied": PermissionDenied,
    "outside_workspace": OutsideWorkspace,
    "invalid": Invalid,
    "closed": Invalid,
    "busy": Busy,
    "protocol": ProtocolError,
}


def error_for(code: str, message: str) -> SandboxError:
    """The exception for an error frame; an unknown code is a plain SandboxError."""
    return BY_CODE.get(code, SandboxError)(message)
