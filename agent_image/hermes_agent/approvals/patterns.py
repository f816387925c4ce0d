"""Commands that never run, and commands that a person is asked about. Data: the table test names what each must match.

Each pattern is searched in one simple command, program first, quotes off (`normalise.Command.text`); those marked `whole`
in the whole line, where pipes and redirections are.

A model writes what they read, so none may take more than linear time: whatever repeats starts at one place only, and what
is found once is not looked for again (`*+` and `(?>...)` give nothing back).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SYSTEM = (
    r"(?:/|/\*|/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|sbin|srv|sys|usr|var)(?:/\*?)?|"
    r"~/?\*?|\$HOME/?\*?|\$\{HOME\}/?\*?)"
)
_RECURSIVE = r".*\s(?:-[a-qs-zA-QS-Z]*+[rR][a-zA-Z]*+|--recursive)\b"
_SECRET_FILES = (
    r"(?:[^\s>]*/)?(?:\.ssh(?:/\S*)?|\.aws(?:/\S*)?|\.gnupg(?:/\S*)?|\.kube(?:/\S*)?|\.docker/config\.json|\.azure(?:/\S*)?|"
    r"\.config/(?:gh|gcloud)(?:/\S*)?|\.netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials|\.env(?:\.\w+)?|"
    r"\.(?:bash|zsh)rc|\.(?:bash_)?profile|\.zprofile|\.zshenv)"
)
_PIECE = r"(?:^|(?<=[|;]))"
"""Where a part of a line begins, between pipes and semicolons."""
_FOLDER = r"(?:[^\s|;]*/)?"
_TARGETS = rf"(?:/etc/\S+|/usr/(?:bin|sbin|lib)/\S+|/boot/\S+|{_SECRET_FILES})"


@dataclass(frozen=True)
class Pattern:
    """One kind of command. `why` completes the sentence "this ...", for the person and for the model."""

    name: str
    why: str
    search: re.Pattern[str]
    whole: bool = False


def _p(name: str, why: str, regex: str, *, whole: bool = False) -> Pattern:
    return Pattern(name, why, re.compile(regex, re.DOTALL | (re.IGNORECASE if whole else 0)), whole)


FLOOR: tuple[Pattern, ...] = (
    _p("delete-system", "deletes the whole system or home", rf"^rm\b(?={_RECURSIVE}).*\s{_SYSTEM}(?:\s|$)"),
    _p("format-disk", "formats a disk", r"^(?:mkfs(?:\.\w+)?|mke2fs|wipefs|mkswap)\b"),
    _p("write-disk", "writes over a raw disk", r"^dd\b.*\bof=/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper)"),
    _p("write-disk-redirect", "writes over a raw disk", r">\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk)\w*", whole=True),
    _p(
        "fork-bomb",
        "is a fork bomb",
        r"(?<![^\s;&|])([^\s(){}|&;]{1,64})\s*+\(\)\s*+\{\s*+\1\s*+\|\s*+\1\s*+&\s*+\}\s*+;?\s*+\1",
        whole=True,
    ),
    _p("kill-everything", "kills every process", r"^kill\b(?:\s+-\S+)*\s+-1(?:\s|$)|^killall5\b"),
    _p(
        "power",
        "stops or restarts the machine",
        r"^(?:shutdown|reboot|halt|poweroff)\b|^systemctl\s+(?:reboot|poweroff|halt|kexec)\b",
    ),
    _p("runlevel", "changes the runlevel", r"^(?:init|telinit)\s+[0-6]\b"),
    _p(
        "sudo-password",
        "feeds a password to sudo",
        r"\|\s*sudo\s+(?:-\w+\s+)*-\w*S|\bsudo\s+(?:-\w+\s+)*-\w*S\w*\b",
        whole=True,
    ),
)

ASK: tuple[Pattern, ...] = (
    _p("delete-recursive", "deletes folders with all they hold", rf"^rm\b{_RECURSIVE}"),
    _p("find-delete", "deletes what a search finds", r"^find\b.*\s-delete\b"),
    _p("world-writable", "lets everybody write", r"^chmod\b.*\s(?:0?[0-7]?[0-7][0-7][2367]|[ao]?\+\w*w\w*|o=\w*w\w*)\b"),
    _p("owner-root", "gives files to root", r"^chown\b.*\s(?:root|0)(?::\w*)?\s"),
    _p(
        "sql-drop",
        "drops or empties tables",
        r"\b(?:drop\s+(?:table|database|schema|index|view)|truncate\s+(?:table\s+)?\w)",
        whole=True,
    ),
    _p("sql-delete", "deletes rows without a condition", r"\bdelete\s+from\s+[\w.\"]+\s*(?:;|\"|'|$)", whole=True),
    _p("write-protected", "writes to system or credential files", rf">>?\s*[\"']?{_TARGETS}", whole=True),
    _p(
        "change-protected",
        "changes system or credential files",
        rf"^(?:tee|cp|mv|install|ln|truncate|dd)\b.*\s(?:of=)?{_TARGETS}(?:\s|$)",
    ),
    _p(
        "edit-protected",
        "edits system or credential files",
        rf"^(?:sed|perl)\b(?=.*\s-[a-hj-zA-Z0-9]*+i).*\s{_TARGETS}(?:\s|$)",
    ),
    _p(
        "service",
        "stops or disables a service",
        r"^systemctl\s+(?:--\S+\s+)*(?:stop|disable|mask|kill)\b|^service\s+\S+\s+stop\b",
    ),
    _p("kill-hard", "kills processes by force", r"^(?:kill|pkill|killall)\b.*\s-(?:9|KILL|SIGKILL)\b"),
    _p("kill-by-name", "kills the platform's own processes", r"^(?:pkill|killall)\b.*\b(?:hermes|sandboxd)\b"),
    _p(
        "pipe-to-shell",
        "runs what it downloads",
        rf"{_PIECE}(?=[^|;]*\b(?:curl|wget|fetch)\b)[^|;]*+\|\s*+(?:sudo\s+)?{_FOLDER}"
        r"(?:sh|bash|zsh|dash|python3?|perl|ruby|node)\b",
        whole=True,
    ),
    _p(
        "substitute-download",
        "runs what it downloads",
        r"\b(?:sh|bash|zsh|source|\.)\s+(?:-c\s+)?[\"']?(?:<\(|\$\()\s*(?:curl|wget)\b",
        whole=True,
    ),
    _p(
        "decode-to-shell",
        "runs something encoded",
        rf"{_PIECE}(?=[^|;]*\bbase64\s+(?:-\w*[dD]|--decode))[^|;]*+\|\s*+{_FOLDER}(?:sh|bash|zsh|dash|python3?|perl)\b",
        whole=True,
    ),
    _p(
        "here-document",
        "runs a script from a here-document",
        r"(?<![\w-])(?:sh|bash|zsh|python3?|perl|ruby|node)\s+(?:-\S*+\s+)*+<<-?\s*[\"']?\w",
        whole=True,
    ),
    _p("shell-inline", "runs a shell with a command of its own", r"^(?:sh|bash|dash|zsh|ksh)\s+(?:-\S+\s+)*-\w*c\b"),
    _p(
        "interpreter-inline",
        "runs code from the command line",
        r"^(?:python[\d.]*|perl|ruby|node|php)\s+(?:-\S+\s+)*(?:-[cer]|--eval)\b",
    ),
    _p(
        "git-reset",
        "throws work away",
        r"^git(?:\s+(?:-[Cc]|--git-dir|--work-tree|--namespace)\s+\S++|\s+-\S++)*+"
        r"\s+(?:reset\b.*\s--hard\b|clean\b.*\s(?:-\w*f|--force)|checkout\b.*\s--\s)",
    ),
    _p(
        "git-force-push",
        "overwrites a remote history",
        r"^git\b(?>.*?\spush\b).*\s(?:--force(?:-with-lease)?\b|-\w*f\b|\+\S)",
    ),
    _p("git-branch-delete", "deletes branches", r"^git\b(?>.*?\sbranch\b).*\s-D\b"),
    _p("containers", "stops or removes containers", r"^(?:docker|podman)\b.*\s(?:stop|kill|rm|rmi|restart|prune|down)\b"),
    _p(
        "remote-engine",
        "talks to another engine",
        r"^(?:docker|podman)\s+(?:\S+\s+)*(?:-H|--host|--context|--remote|--url|context\s+use)\b",
    ),
    _p(
        "execute-flag",
        "runs a program from a reading tool",
        r"^(?:rg|grep|fd|tar|man|less)\b.*\s(?:--pre(?:=|\s)|--exec(?:-batch)?\b|--to-command|--checkpoint-action)|^fd\b.*\s-[xX]\b",
    ),
)
SUDO = _p("sudo", "runs as another user", r"^(?:sudo|doas|su)\b")


def floor_reasons() -> tuple[str, ...]:
    """Return the names of what never runs, for the documentation."""
    return tuple(pattern.name for pattern in FLOOR)
