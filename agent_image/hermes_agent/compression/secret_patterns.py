"""What secrets look like: data for `redact`. Each entry has a line that must match and one that must not in the tests."""

from __future__ import annotations

PREFIXES: tuple[tuple[str, str], ...] = (
    ("openai", r"sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}"),
    ("anthropic", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    ("github", r"gh[pousr]_[A-Za-z0-9]{20,}"),
    ("github_fine", r"github_pat_[A-Za-z0-9_]{20,}"),
    ("gitlab", r"gl(?:pat|ptt|dt|rt|cbt|ft)-[A-Za-z0-9_-]{20,}"),
    ("aws_id", r"(?:AKIA|ASIA)[A-Z0-9]{16}"),
    ("google", r"AIza[A-Za-z0-9_-]{35}"),
    ("google_oauth", r"ya29\.[A-Za-z0-9_-]{20,}"),
    ("google_client", r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    ("slack", r"xox[abeoprs](?:\.[a-z0-9]+)?-[A-Za-z0-9-]{10,}"),
    ("slack_app", r"xapp-\d-[A-Za-z0-9-]{10,}"),
    ("slack_hook", r"hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    ("telegram", r"\d{8,10}:[A-Za-z0-9_-]{35}"),
    ("discord", r"[MNO][A-Za-z\d]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,}"),
    ("stripe", r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("stripe_hook", r"whsec_[A-Za-z0-9]{20,}"),
    ("twilio", r"SK[0-9a-f]{32}"),
    ("sendgrid", r"SG\.[A-Za-z0-9_-]{16,100}\.[A-Za-z0-9_-]{16,}"),
    ("mailgun", r"key-[0-9a-f]{32}"),
    ("npm", r"npm_[A-Za-z0-9]{30,}"),
    ("pypi", r"pypi-[A-Za-z0-9_-]{40,}"),
    ("huggingface", r"hf_[A-Za-z0-9]{20,}"),
    ("replicate", r"r8_[A-Za-z0-9]{30,}"),
    ("groq", r"gsk_[A-Za-z0-9]{30,}"),
    ("xai", r"xai-[A-Za-z0-9]{30,}"),
    ("perplexity", r"pplx-[A-Za-z0-9]{30,}"),
    ("tavily", r"tvly-[A-Za-z0-9_-]{20,}"),
    ("firecrawl", r"fc-[a-f0-9]{32}"),
    ("digitalocean", r"do[opr]_v1_[a-f0-9]{64}"),
    ("vault", r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),
    ("doppler", r"dp\.(?:pt|st|sa|ct)\.[A-Za-z0-9_.-]{30,}"),
    ("linear", r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}"),
    ("notion", r"(?:secret|ntn)_[A-Za-z0-9]{40,}"),
    ("atlassian", r"ATATT3[A-Za-z0-9_=-]{40,}"),
    ("shopify", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("databricks", r"dapi[a-f0-9]{32}"),
    ("sentry", r"sntr[yu]s_[A-Za-z0-9_=+/-]{40,}"),
    ("grafana", r"gl(?:sa|c)_[A-Za-z0-9_=+/]{30,}"),
    ("age", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    ("nkey", r"S[UAONCX][A-Z2-7]{56}"),
    ("jwt", r"eyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,}"),
)
"""A vendor's token, whole, with nothing of its alphabet before it."""

BLOCKS: tuple[tuple[str, str], ...] = (
    ("private_key", r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]{0,20000}?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"),
)

NAME = (
    r"(?:[A-Za-z0-9]{1,40}[_.-]){0,6}"
    r"(?:passwd|password|passphrase|pwd|secret|token|api[_-]?key|apikey|access[_-]?key|private[_-]?key|secret[_-]?key|"
    r"client[_-]?secret|auth[_-]?token|credentials?|bearer)"
    r"(?:[_.-](?:id|key|value|prod|dev|test|live|\d{1,6})){0,4}"
)
"""Names whose value is a secret: `DB_PASSWORD`, `api-key`, `client_secret`."""
NAME_WORDS = ("passw", "passphrase", "pwd", "secret", "token", "key", "credential", "bearer")
"""Every name that `NAME` matches holds one of these, in lower case."""

NEVER_SECRET = frozenset(
    {"true", "false", "null", "none", "undefined", "string", "str", "required", "optional", "changeme", "redacted", "int"}
)
"""Values that a secret's name may have without being one."""
