"""What this machine has: packages, capabilities, certificates, package index settings."""

from __future__ import annotations

import os
import re
import shutil
import ssl
from collections.abc import Iterable, Mapping
from configparser import ConfigParser, Error
from pathlib import Path

from cluster.console import ClusterError, Console, output, run_logged
from cluster.settings import Settings

CAP_SYS_RESOURCE = 24
CERTIFICATES_IN_IMAGE = "/etc/ssl/certs/ca-certificates.crt"
COMMON_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries", "proxy")
APT_SETTINGS = re.compile(r"^Acquire::(Check-|Retries|http|https)[A-Za-z0-9:.\-]* \"[^\"]*\";$", re.IGNORECASE)


def has_capability(number: int, status: str) -> bool:
    """Whether the bounding set in the text of /proc/self/status holds a capability."""
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return True


def missing_packages(wanted: Iterable[str], installed: str) -> list[str]:
    """Names in `wanted` that are not installed; `installed` has lines `name status`, as dpkg-query prints them."""
    there = {line.split()[0].partition(":")[0] for line in installed.splitlines() if line.endswith(" installed")}
    return [name for name in wanted if name not in there]


def ensure_packages(console: Console, settings: Settings, wanted: Iterable[str]) -> None:
    """Install Debian packages that are missing.

    Raises ClusterError with the command to run when this machine has no apt or we are not root.
    """
    names = list(wanted)
    if not shutil.which("apt-get") or not shutil.which("dpkg-query"):
        raise ClusterError(f"this machine has no apt; install the equivalents of: {' '.join(names)}")
    missing = missing_packages(names, output(["dpkg-query", "-W", "-f", "${binary:Package} ${db:Status-Status}\n"]))
    if not missing:
        return
    if os.geteuid() != 0:
        raise ClusterError(f"not root; run: sudo apt-get install --no-install-recommends {' '.join(missing)}")
    environ = {**settings.environ, "DEBIAN_FRONTEND": "noninteractive"}
    log = settings.state / "apt.log"
    install = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    try:
        run_logged(console, f"installing {' '.join(missing)}", install, log, environ=environ)
    except ClusterError:
        run_logged(console, "refreshing apt's package lists", ["apt-get", "update"], log, environ=environ)
        run_logged(console, f"installing {' '.join(missing)}", install, log, environ=environ)


def need_go() -> str:
    """Path of the Go command; raises ClusterError saying what to install."""
    found = shutil.which("go")
    if not found:
        raise ClusterError("Go is not installed; install Go 1.21 or later (go.dev/dl) and put its bin folder on PATH")
    return found


def certificate_bundle(environ: Mapping[str, str]) -> Path | None:
    """The file of authorities this machine trusts, or None when there is none."""
    paths = ssl.get_default_verify_paths()
    for name in (environ.get("SSL_CERT_FILE"), *COMMON_BUNDLES, paths.cafile, paths.openssl_cafile):
        if name and Path(name).is_file():
            return Path(name)
    return None


def pip_settings(environ: Mapping[str, str], files: Iterable[str]) -> str:
    """A pip.conf for builds: this machine's index addresses, with the authorities at their place in the image.

    `files` are the texts of the machine's pip.conf files, weakest first. The result may hold credentials.
    """
    found: dict[str, str] = {}
    for text in files:
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(text)
        except Error:
            continue
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update((key, value) for key, value in parser.items(section) if key in PIP_SETTINGS)
    for key in PIP_SETTINGS:
        value = environ.get("PIP_" + key.upper().replace("-", "_"))
        if value:
            found[key] = value
    lines = [f"{key} = " + value.strip().replace("\n", "\n    ") for key, value in sorted(found.items())]
    return "\n".join(["[global]", f"cert = {CERTIFICATES_IN_IMAGE}", "disable-pip-version-check = true", *lines, ""])


def pip_files(environ: Mapping[str, str]) -> list[str]:
    """Texts of the pip.conf files of this machine and user, weakest first."""
    home = Path(environ.get("HOME", "/nonexistent"))
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    names = [Path("/etc/pip.conf"), home / ".pip/pip.conf", config / "pip/pip.conf"]
    if environ.get("PIP_CONFIG_FILE"):
        names.append(Path(environ["PIP_CONFIG_FILE"]))
    return [name.read_text() for name in names if name.is_file()]


def apt_settings(dump: str) -> str:
    """From `apt-config dump`, the lines about fetching (proxies, date checks) that a build needs too."""
    lines = [line.strip() for line in dump.splitlines()]
    return "".join(line + "\n" for line in lines if APT_SETTINGS.match(line))


def apt_dump() -> str:
    """Output of `apt-config dump`, empty on a machine without apt."""
    return output(["apt-config", "dump"]) if shutil.which("apt-config") else ""


def apt_options() -> list[str]:
    """This machine's settings for fetching packages, as options of mmdebstrap."""
    return [f"--aptopt={line.rstrip(';')}" for line in apt_settings(apt_dump()).splitlines()]
