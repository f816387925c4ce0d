"""What text that wants to take over an agent looks like, as data. Three cumulative scopes; matched on folded text.

Every quantifier is bounded and neighbours match different things, so that a hostile text cannot make a search slow.
`tests/unit/agent/test_prompt_patterns.py` holds, for each, what it must find and what it must leave alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property


class Scope(IntEnum):
    """Where a text comes from; a scope's patterns apply in all later ones too."""

    ALL = 0
    """Anywhere."""
    CONTEXT = 1
    """Files, memory and tool results: text that will be read as instructions or beside them."""
    STRICT = 2
    """What a person lets the agent write for later, such as memory and skills."""


@dataclass(frozen=True)
class Pattern:
    """One look. `needs` are lower-case words of which at least one is in every match: the cheap test before the search.

    An expression is compiled when it is first needed: all of them together would cost the agent's start 20 ms.
    """

    name: str
    scope: Scope
    needs: tuple[str, ...]
    source: str

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The expression, compiled."""
        return re.compile(self.source, re.IGNORECASE)


_GAP = r"[\s\"'`*_>()-]{1,8}"
"""Between two words: blanks, quotes, marks of Markdown, line breaks."""
_FEW = rf"(?:[^\W_]{{1,30}}{_GAP}){{0,4}}"
"""At most four words."""
_SECRET = r"\$\{?\w{0,40}(?:key|token|secret|password|passwd|credential)\w{0,40}\}?"
_SECRET_FILE = (
    r"(?:\.env\b(?!\.(?:example|sample|template))|\.netrc\b|\.pgpass\b|\.npmrc\b|\.pypirc\b|\.aws/credentials|\.kube/config"
    r"|\.docker/config\.json|\.ssh/id_\w{2,10}\b|/etc/shadow|serviceaccount/token)"
)


def _pattern(name: str, scope: Scope, needs: str, regex: str) -> Pattern:
    source = regex.replace("~", _GAP).replace("@FEW@", _FEW).replace("@SECRET@", _SECRET).replace("@FILE@", _SECRET_FILE)
    return Pattern(name, scope, tuple(needs.split()), source)


PATTERNS: tuple[Pattern, ...] = (
    _pattern(
        "ignore_instructions",
        Scope.ALL,
        "ignore disregard forget override bypass",
        r"\b(?:ignore|disregard|forget|override|bypass)~@FEW@(?:previous|prior|above|earlier|preceding|system|your|existing)"
        r"~@FEW@(?:instructions?|prompts?|rules|guidelines|directives?)\b",
    ),
    _pattern(
        "everything_above",
        Scope.ALL,
        "ignore disregard forget",
        r"\b(?:ignore|disregard|forget)~(?:everything|all|anything)~(?:that~)?(?:(?:is|was|came|you~were~told)~)?"
        r"(?:above|before|so~far|until~now)\b",
    ),
    _pattern(
        "system_prompt_override",
        Scope.ALL,
        "system",
        r"\bsystem~prompt~(?:override|overwrite|replacement)\b|\bnew~system~(?:prompt|instructions?)\s?:",
    ),
    _pattern(
        "reveal_prompt",
        Scope.ALL,
        "prompt instructions",
        r"\b(?:reveal|print|output|repeat|leak|dump)~@FEW@(?:system~prompt|(?:hidden|initial|secret)~(?:prompt|instructions?))\b",
    ),
    _pattern(
        "hide_from_user",
        Scope.ALL,
        "user human operator",
        r"\b(?:do~not|don't|never|without)~(?:tell|inform|notify|alert|mention~(?:this|it)~to|telling|informing|notifying"
        r"|alerting)~(?:the~)?(?:user|human|operator)\b",
    ),
    _pattern(
        "no_restrictions",
        Scope.ALL,
        "restrictions limits limitations filters jailbreak",
        r"\b(?:act|behave|respond|answer|operate)~(?:as~(?:if|though)~)?@FEW@(?:no|without(?:~any)?)~"
        r"(?:restrictions|limits|limitations|filters)\b|\bjailbreak(?:ed)?~(?:mode|prompt)\b",
    ),
    _pattern(
        "hidden_comment",
        Scope.ALL,
        "<!--",
        r"<!--(?:(?!-->|<!--)[\s\S]){0,2000}?\b(?:ignore|disregard|override|system~prompt|instructions?~(?:for|to)~(?:the~)?"
        r"(?:ai|agent|assistant|model|llm)|(?:ai|agent|assistant|llm)~(?:must|should|shall))\b",
    ),
    _pattern(
        "invisible_container",
        Scope.ALL,
        "display visibility font-size opacity",
        r"<\w{1,10}\s[^>]{0,300}style\s?=\s?[\"'][^\"'>]{0,300}"
        r"(?:display\s?:\s?none|visibility\s?:\s?hidden|font-size\s?:\s?0|opacity\s?:\s?0(?![.\d]))",
    ),
    _pattern(
        "decode_and_run",
        Scope.ALL,
        "base64 translate",
        r"\bbase64\s{1,4}(?:-d|-D|--decode)[^\n]{0,200}\|\s{0,4}(?:sudo\s{1,4})?(?:ba|z|da)?sh\b"
        r"|\btranslate\b[^\n.]{1,60}\b(?:in)?to\b[^\n.]{1,40}\band~(?:then~)?(?:execute|run|eval)~(?:it|that|them|the~result)\b",
    ),
    _pattern(
        "fetch_with_secret",
        Scope.ALL,
        "curl wget http fetch nc",
        r"\b(?:curl|wget|https?|fetch|nc)\s(?![^\n]{0,120}https?://(?:localhost|127\.0\.0\.1)[:/])[^\n]{0,300}@SECRET@",
    ),
    _pattern(
        "read_secret_file",
        Scope.ALL,
        ".env .netrc .pgpass .npmrc .pypirc .aws .kube .docker .ssh shadow serviceaccount",
        r"\b(?:cat|less|more|head|tail|strings|base64|xxd|scp)\s{1,4}[^\n|;&]{0,120}@FILE@|\b(?:cp|mv)\s{1,4}[^\s|;&]{0,120}@FILE@",
    ),
    _pattern(
        "role_hijack",
        Scope.CONTEXT,
        "now role pretend act",
        r"\byou~are~now~(?:a|an|the|no~longer|in~(?:developer|god|admin|unrestricted)~mode|DAN)\b"
        r"|\bfrom~now~on,?~you~(?:are|will~(?:be|act))\b|\byour~new~(?:role|identity|persona|instructions?)~(?:is|are)\b"
        r"|\bpretend~(?:that~)?you~are\b"
        r"|\bpretend~to~be~(?:an?~(?:human|person|hacker|different)|(?:the|an?)~(?:user|owner|admin(?:istrator)?|system|developer))\b",
    ),
    _pattern(
        "forged_turn",
        Scope.CONTEXT,
        "<| [inst] <system> </system> <<sys>> <system-reminder>",
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id)\|>|\[/?INST\]|<</?SYS>>|</?system(?:-reminder)?>",
    ),
    _pattern(
        "command_and_control",
        Scope.CONTEXT,
        "c2 command-and-control beacon implant",
        r"\b(?:c2|c&c|command[- ]and[- ]control)~(?:server|channel|endpoint|host|beacon|framework)\b"
        r"|\bbeacon~(?:back~)?(?:to|every)\b|\b(?:deploy|drop|install)~(?:an?~|the~)?implant\b",
    ),
    _pattern(
        "remote_orders",
        Scope.CONTEXT,
        "instructions commands orders tasks",
        r"\b(?:poll|check|fetch|await|wait~for|retrieve|download)~@FEW@(?:further|new|next|your)~(?:instructions|commands|orders|tasks)"
        r"~(?:from|at|on)~\S{0,4}https?://",
    ),
    _pattern(
        "anti_forensics",
        Scope.CONTEXT,
        "trace traces tracks history logs histfile audit",
        r"\bleave~no~traces?\b|\bcover~(?:your|our|the|its)~tracks\b"
        r"|\b(?:clear|delete|erase|wipe|purge)~(?:the~|your~|all~)?(?:bash|shell|command|zsh)~history\b"
        r"|\bhistory\s{1,4}-c\b|\bunset\s{1,4}HISTFILE\b"
        r"|\b(?:delete|erase|wipe|tamper~with|disable)~(?:the~|all~)?(?:audit|system|security)~logs?\b",
    ),
    _pattern(
        "offensive_tool",
        Scope.CONTEXT,
        "mimikatz cobalt meterpreter bloodhound linpeas winpeas lazagne impacket msfvenom responder sliver",
        r"\b(?:mimikatz|cobalt[\s-]?strike|meterpreter|bloodhound(?:\.py|-python)|(?:lin|win)peas|lazagne|secretsdump\.py|msfvenom"
        r"|impacket-\w{2,20}|sliver~(?:c2|implant|beacon))\b",
    ),
    _pattern(
        "reverse_shell",
        Scope.CONTEXT,
        "/dev/tcp/ nc ncat mkfifo",
        r"/dev/tcp/[\w.-]{1,80}/\d{1,5}|\b(?:nc|ncat)\s[^\n]{0,80}\s(?:-e|-c|--exec)\s{1,4}\S{0,20}sh\b"
        r"|\bmkfifo\b[^\n]{1,120}\|\s{0,4}(?:nc|ncat)\b",
    ),
    _pattern(
        "exfiltration",
        Scope.STRICT,
        "http://https:// http:// https:// @",
        r"\b(?:send|post|upload|forward|exfiltrate|transmit|e-?mail)~@FEW@(?:conversations?|history|memory|memories|secrets?|keys?"
        r"|tokens?|credentials?|passwords?|files?|data|transcripts?)~@FEW@(?:to|at|via)~\S{0,4}(?:https?://|[\w.+-]{1,64}@[\w-]{1,63}\.)",
    ),
    _pattern(
        "ssh_backdoor",
        Scope.STRICT,
        "authorized_keys ssh-rsa ssh-ed25519",
        r"\bauthorized_keys\b|\bssh-(?:rsa|ed25519)\s{1,4}AAAA[\w+/=]{20,}",
    ),
    _pattern(
        "agent_settings",
        Scope.STRICT,
        "agents.md claude.md soul.md .hermes cursorrules",
        r"\b(?:edit|modify|change|rewrite|overwrite|append~to|write~to|replace|add~(?:this|a~line|lines)~to)~@FEW@"
        r"[\w./\x7e]{0,40}(?:AGENTS\.md|CLAUDE\.md|SOUL\.md|\.hermes(?:\.md|/)|\.cursorrules)",
    ),
    _pattern(
        "hard_coded_secret",
        Scope.STRICT,
        "sk- akia ghp_ gho_ github_pat_ xox begin key token secret password passwd",
        r"\b(?:sk-(?:ant-|proj-)?[\w-]{20,}|AKIA[0-9A-Z]{16}|gh[po]_\w{36}|github_pat_\w{30,}|xox[abprs]-[\w-]{10,})"
        r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"
        r"|\b(?:api[_-]?key|token|secret|password|passwd)\s?[:=]\s?[\"'][^\"'\s$<{]{16,200}[\"']",
    ),
)

INVISIBLE = frozenset(
    "\u00ad\u034f\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff"
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""Code points that are not seen, or that turn the order of what is seen."""
TAGS = re.compile("[\U000e0000-\U000e007f]")
"""A whole alphabet that is not seen; its one honest use is in flags, after U+1F3F4."""
SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}")
"""One variation selector changes how a character looks; two in a row carry hidden bytes."""
