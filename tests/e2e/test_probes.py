"""What can be reached from inside: both containers try, with Python and nothing else, and the answer is always no."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from release.kubectl import get, get_all
from tests.e2e.framework.installation import NAMESPACE, RELEASE, namespace_of
from tests.e2e.framework.person import Person
from tests.e2e.framework.sessions import only_session, pod_running, python_in, shell

STORY = "probes"

CONNECT = """
import socket, sys
host, port = {host!r}, {port}
try:
    socket.create_connection((host, port), timeout=3).close()
    print("CONNECTED")
except OSError as error:
    print("refused", error)
"""


@pytest.fixture
async def pod() -> AsyncIterator[str]:
    async with Person(STORY) as ann:
        await ann.say("probe", "hello")
    (session,) = await only_session(namespace_of(STORY))
    found = await pod_running(namespace_of(STORY), session["metadata"]["name"])
    yield found["metadata"]["name"]


async def _targets() -> dict[str, tuple[str, int]]:
    gateway = (await get_all("pods", NAMESPACE, "app.kubernetes.io/component=gateway"))[0]["status"]["podIP"]
    postgres = (await get_all("pods", NAMESPACE, "app.kubernetes.io/component=database"))[0]["status"]["podIP"]
    kubernetes = await get("service", "kubernetes", "default")
    node = (await get_all("nodes", "default"))[0]
    assert kubernetes is not None
    internal = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
    return {
        "Kubernetes API by service": (kubernetes["spec"]["clusterIP"], 443),
        "Kubernetes API on the node": (internal, 6443),
        "kubelet": (internal, 10250),
        "metadata address": ("169.254.169.254", 80),
        "metadata address v6": ("fd00:ec2::254", 80),
        "another pod": (gateway, 8642),
        "the database": (postgres, 5432),
        "the internet": ("1.1.1.1", 443),
        "DNS of the cluster": ("10.96.0.10", 53),
    }


@pytest.mark.parametrize("container", ["agent", "sandbox"])
async def test_nothing_but_the_platform_answers(pod: str, container: str) -> None:
    reached = []
    for what, (host, port) in (await _targets()).items():
        answer = await python_in(namespace_of(STORY), pod, container, CONNECT.format(host=host, port=port))
        if "refused" not in answer:
            reached.append((what, answer))
    assert not reached


async def test_the_bus_lets_nobody_in_without_a_credential(pod: str) -> None:
    bus = await get("service", f"{RELEASE}-bus", NAMESPACE)
    assert bus is not None
    code = f"""
import socket
s = socket.create_connection(({bus["spec"]["clusterIP"]!r}, 4222), timeout=5)
s.settimeout(5)
info = s.recv(65536)
s.sendall(b'CONNECT {{"verbose":true,"pedantic":false}}\\r\\nPUB hermes.wake 0\\r\\n\\r\\nPING\\r\\n')
print(s.recv(65536))
"""
    answer = await python_in(namespace_of(STORY), pod, "sandbox", code)
    assert "Authorization Violation" in answer


async def test_the_models_service_lets_nobody_in_without_a_token(pod: str) -> None:
    models = await get("service", f"{RELEASE}-models", NAMESPACE)
    assert models is not None
    code = f"""
import urllib.request, urllib.error
request = urllib.request.Request("http://{models["spec"]["clusterIP"]}:8645/v1/stream", data=b"{{}}")
try:
    print(urllib.request.urlopen(request, timeout=5).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""
    assert (await python_in(namespace_of(STORY), pod, "sandbox", code)).strip() == "401"


@pytest.mark.parametrize("container", ["agent", "sandbox"])
async def test_there_is_no_cluster_token_and_no_key_of_ours(pod: str, container: str) -> None:
    code = """
import json, os
found = [p for p in ("/var/run/secrets/kubernetes.io", "/run/hermes/bus") if os.path.exists(p)]
names = [n for n in os.environ if any(w in n.upper() for w in ("KEY", "SECRET", "PASSWORD", "TOKEN"))]
print(json.dumps({"paths": found, "names": names, "uid": os.getuid(), "gids": sorted(os.getgroups())}))
"""
    found = json.loads(await python_in(namespace_of(STORY), pod, container, code))
    assert found["paths"] == []
    assert [n for n in found["names"] if n != "GPG_KEY"] == []
    assert found["uid"] == {"agent": 10001, "sandbox": 10002}[container]


async def test_the_sandbox_sees_none_of_the_agents_secrets(pod: str) -> None:
    listing = await shell(
        namespace_of(STORY), pod, "sandbox", "sh", "-c", "ls /run/hermes; ls /run/hermes/session 2>&1 || true"
    )
    assert "bus.creds" not in listing
    assert "models.token" not in listing


@pytest.mark.parametrize("container", ["agent", "sandbox"])
async def test_privileges_are_gone(pod: str, container: str) -> None:
    code = """
import ctypes, json
status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
def writable(path):
    try:
        open(path, "w").close(); return True
    except OSError:
        return False
print(json.dumps({
    "caps": int(status["CapEff"], 16) | int(status["CapPrm"], 16) | int(status["CapBnd"], 16),
    "no_new_privs": int(status["NoNewPrivs"]), "seccomp": int(status["Seccomp"]),
    "root": writable("/x"), "etc": writable("/etc/passwd"), "proc": writable("/proc/sys/kernel/hostname"),
    "mount": ctypes.CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0,
}))
"""
    found = json.loads(await python_in(namespace_of(STORY), pod, container, code))
    assert found == {
        "caps": 0, "no_new_privs": 1, "seccomp": 2, "root": False, "etc": False, "proc": False, "mount": False,
    }  # fmt: skip


async def test_the_sandbox_cannot_drive_its_own_daemon(pod: str) -> None:
    code = """
import socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
try:
    s.connect("/run/hermes/exec/exec.sock")
    s.sendall(b"\\0" * 64)
    print("answered" if s.recv(1) else "closed")
except OSError as error:
    print("refused", error)
"""
    assert (await python_in(namespace_of(STORY), pod, "sandbox", code)).split()[0] in ("refused", "closed")


async def test_the_agent_listens_nowhere(pod: str) -> None:
    code = """
ports = [l.split()[1] for f in ("/proc/net/tcp", "/proc/net/tcp6") for l in list(open(f))[1:] if l.split()[3] == "0A"]
names = [l.split()[-1] for l in list(open("/proc/net/unix"))[1:] if "@" in l.split()[-1]]
print(ports, names)
"""
    assert (await python_in(namespace_of(STORY), pod, "sandbox", code)).strip() == "[] []"


async def test_the_pod_passes_the_restricted_standard(pod: str) -> None:
    found = await get("pod", pod, namespace_of(STORY))
    assert found is not None
    assert found["spec"]["automountServiceAccountToken"] is False
    assert found["spec"].get("enableServiceLinks") is False
    for container in found["spec"]["initContainers"] + found["spec"]["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert set(container["resources"]["limits"]) >= {"memory", "ephemeral-storage"}
