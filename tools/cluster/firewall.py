"""Putting the firewall back as it was before our Docker engine started."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

from cluster.console import output, succeeds

COMMANDS = ("iptables", "ip6tables")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
# What dockerd and its bridges write; rules of others that appeared meanwhile are not ours to remove.
OURS = re.compile(r"\bDOCKER|\bdocker0\b|\bbr-[0-9a-f]{12}\b|^-P FORWARD")


def removals(before: str, now: str) -> list[list[str]]:
    """Arguments of the iptables calls that turn the rules `now` back into those `before`.

    Both texts are what `iptables-save` prints. Only what Docker writes is removed; chains go after every rule.
    """
    old, new = _parse(before), _parse(now)
    rules: list[list[str]] = []
    chains: list[list[str]] = []
    for table, lines in new.items():
        known = old.get(table, [])
        for line in lines:
            if line in known or not OURS.search(line):
                continue
            words = shlex.split(line)
            if words[0] == "-A":
                rules.append(["-t", table, "-D", *words[1:]])
            elif words[0] == "-N":
                chains.append(["-t", table, "-X", words[1]])
            elif words[0] == "-P":
                policy = next((entry.split()[2] for entry in known if entry.startswith("-P FORWARD ")), "ACCEPT")
                rules.append(["-t", table, "-P", "FORWARD", policy])
    return rules + chains


def _parse(saved: str) -> dict[str, list[str]]:
    """Rules a table: chain lines of `iptables-save` become `-P chain policy` or `-N chain`, rules stay `-A ...`."""
    tables: dict[str, list[str]] = {}
    table = "filter"
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy = line[1:].split()[:2]
            tables.setdefault(table, []).append(f"-N {chain}" if policy == "-" else f"-P {chain} {policy}")
        elif line.startswith("-A"):
            tables.setdefault(table, []).append(line)
    return tables


def remember(path: Path) -> None:
    """Write the rules of now and the forwarding switch to a file, for `restore`.

    A file that is there already is kept: it is from before an engine that died without being stopped.
    """
    if path.exists():
        return
    saved = {name: output([f"{name}-save"]) for name in COMMANDS if shutil.which(f"{name}-save")}
    saved["ip_forward"] = FORWARDING.read_text().strip()
    path.write_text(json.dumps(saved))


def restore(path: Path) -> None:
    """Bring back what `remember` wrote, then forget it. Does nothing when there is no such file."""
    if not path.exists():
        return
    saved = json.loads(path.read_text())
    for name in COMMANDS:
        if name in saved:
            for arguments in removals(saved[name], output([f"{name}-save"])):
                succeeds([name, "--wait", *arguments])
    FORWARDING.write_text(saved["ip_forward"])
    path.unlink()
