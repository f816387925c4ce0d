"""One NetworkPolicy an egress class in each tenant namespace, shared by all of its agent pods."""

from __future__ import annotations

import ipaddress
from typing import Any

from hermes_contracts.names import LABEL_COMPONENT, LABEL_EGRESS, LABEL_PART_OF
from hermes_operator.build.facts import HostAddress, Installation
from hermes_operator.build.meta import (
    ANNOTATION_TEMPLATE,
    COMPONENT_AGENT,
    MANAGED_BY,
    OPERATOR,
    PART_OF,
    template_hash,
)

EGRESS_CLASSES = ("None", "Internet")

PRIVATE_V4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
"""Everything that is not a public address; the metadata services of clouds are in 169.254.0.0/16 and 100.64.0.0/10."""
PUBLIC_V6 = "2000::/3"
PRIVATE_V6 = ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
"""Inside the public range: tunnels that reach private addresses, and documentation. NAT64, unique local and link-local
addresses are outside of it."""


def policy_name(egress: str) -> str:
    """Return the name of a class's policy."""
    return f"hermes-agent-egress-{egress.lower()}"


def build_policy(installation: Installation, namespace: str, egress: str) -> dict[str, Any]:
    """Return the policy of one class in one namespace: nothing comes in, and what the class names goes out."""
    rules = [_service(installation, installation.bus), _service(installation, installation.models)]
    if egress == "Internet":
        rules += [_dns(installation), *_internet(installation)]
    spec = {
        "podSelector": {"matchLabels": {LABEL_COMPONENT: COMPONENT_AGENT, LABEL_EGRESS: egress.lower()}},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [],
        "egress": rules,
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": policy_name(egress),
            "namespace": namespace,
            "labels": {LABEL_PART_OF: PART_OF, MANAGED_BY: OPERATOR},
            "annotations": {ANNOTATION_TEMPLATE: template_hash(spec)},
        },
        "spec": spec,
    }


def _service(installation: Installation, service: HostAddress) -> dict[str, Any]:
    if service.selector:
        peers: list[dict[str, Any]] = [
            {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": service.namespace or installation.namespace}
                },
                "podSelector": {"matchLabels": dict(service.selector)},
            }
        ]
    else:
        peers = [{"ipBlock": {"cidr": _one(address)}} for address in service.addresses]
    return {"to": peers, "ports": [{"protocol": "TCP", "port": service.port}]}


def _one(address: str) -> str:
    return str(ipaddress.ip_network(address))


def _dns(installation: Installation) -> dict[str, Any]:
    """Allow the cluster's resolvers: its pods, because policies see addresses after translation, and node-local ones."""
    peers: list[dict[str, Any]] = [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }
    ]
    peers += [{"ipBlock": {"cidr": _one(address)}} for address in installation.resolvers]
    return {"to": peers, "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]}


def _internet(installation: Installation) -> list[dict[str, Any]]:
    blocked = [ipaddress.ip_network(cidr) for cidr in installation.blocked_cidrs]
    v4 = [str(n) for n in blocked if n.version == 4 and not _inside(n, PRIVATE_V4)]
    public_v6 = ipaddress.ip_network(PUBLIC_V6)
    v6 = [str(n) for n in blocked if isinstance(n, ipaddress.IPv6Network) and n.subnet_of(public_v6)]  # type: ignore[arg-type]
    return [
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": [*PRIVATE_V4, *v4]}}]},
        {"to": [{"ipBlock": {"cidr": PUBLIC_V6, "except": [*PRIVATE_V6, *v6]}}]},
    ]


def _inside(network: ipaddress.IPv4Network | ipaddress.IPv6Network, ranges: tuple[str, ...]) -> bool:
    return isinstance(network, ipaddress.IPv4Network) and any(
        network.subnet_of(ipaddress.IPv4Network(other)) for other in ranges
    )
