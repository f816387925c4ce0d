"""Each component has a policy, and what is not written in it is denied."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_contracts import names
from hermes_contracts.installation import PORT_API, PORT_BUS, PORT_DATABASE, PORT_MODELS, PORT_SCRIPTED_MODEL, PORT_WEBHOOKS

CHART = Path(__file__).resolve().parents[3] / "charts/hermes"


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", {}).items() <= labels.items()
    return wanted and all(rule["key"] in labels for rule in selector.get("matchExpressions", []))


def peers(rule: dict[str, Any], key: str) -> set[str]:
    """Name a rule's peers: components, agents of a namespace, `anyone`."""
    found = set()
    for peer in rule.get(key, []):
        if "ipBlock" in peer:
            found.add(peer["ipBlock"]["cidr"])
        elif "namespaceSelector" in peer:
            namespace = peer["namespaceSelector"].get("matchLabels", {}).get("kubernetes.io/metadata.name", "*")
            found.add(f"{'agents' if 'podSelector' in peer else 'all'} of {namespace}")
        else:
            found.add(peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"])
    return found or {"anyone"}


def table(chart, component: str, direction: str) -> dict[int, set[str]]:
    spec = chart.of("NetworkPolicy")[f"ours-{component}"]["spec"]
    found: dict[int, set[str]] = {}
    for rule in spec[direction]:
        for port in rule["ports"]:
            found.setdefault(port["port"], set()).update(peers(rule, {"ingress": "from", "egress": "to"}[direction]))
    return found


@pytest.mark.parametrize("case", ["default", "external", "everything", "laptop"])
def test_every_pod_is_under_exactly_one_policy_that_denies_both_ways(render, case) -> None:
    chart = render(case)
    policies = chart.of("NetworkPolicy").values()
    for name, pod in chart.pods().items():
        if name == "ours-test":
            continue
        labels = pod["metadata"]["labels"]
        over = [found for found in policies if matches(found["spec"]["podSelector"], labels)]
        assert len(over) == 1, name
        assert sorted(over[0]["spec"]["policyTypes"]) == ["Egress", "Ingress"]


def test_who_reaches_what(render) -> None:
    chart = render("everything")
    agents = {"agents of team-a", "agents of team-b", "agents of team-c"}
    metrics = {9090: {"all of *"}}
    assert table(chart, "bus", "ingress") == {PORT_BUS: {"operator", "gateway", "store", "models"} | agents}
    assert table(chart, "database", "ingress") == {PORT_DATABASE: {"store"}}
    assert table(chart, "models", "ingress") == {PORT_MODELS: agents} | metrics
    assert table(chart, "scripted-model", "ingress") == {PORT_SCRIPTED_MODEL: {"models"}} | metrics
    assert table(chart, "gateway", "ingress") == {PORT_API: {"anyone"}, PORT_WEBHOOKS: {"anyone"}} | metrics
    assert table(chart, "operator", "ingress") == metrics
    assert table(chart, "store", "ingress") == metrics


def test_who_may_leave(render) -> None:
    chart = render("default")
    names_lookup = {"all of kube-system", "169.254.20.10/32"}
    base = {53: names_lookup, PORT_BUS: {"bus"}}
    assert table(chart, "store", "egress") == base | {PORT_DATABASE: {"database"}}
    assert table(chart, "operator", "egress") == base | {443: {"anyone"}, 6443: {"anyone"}}
    assert table(chart, "gateway", "egress") == base | {80: {"anyone"}, 443: {"anyone"}}
    assert table(chart, "models", "egress").keys() == {53, 80, 443, 6443, PORT_BUS, PORT_SCRIPTED_MODEL}
    for component in ("bus", "database", "scripted-model"):
        assert table(chart, component, "egress") == {}


def test_values_narrow_the_api_server_and_open_external_services(render) -> None:
    chart = render("external")
    assert table(chart, "operator", "egress")[6443] == {"192.0.2.1/32"}
    assert table(chart, "operator", "egress")[4333] == {"anyone"}
    assert table(chart, "store", "egress")[5433] == {"anyone"}


def test_agent_pods_are_known_by_the_label_that_the_operator_gives_them(render) -> None:
    rule = render("default").of("NetworkPolicy")["ours-models"]["spec"]["ingress"][0]
    (agents,) = rule["from"]
    assert matches(agents["podSelector"], {names.LABEL_COMPONENT: "agent", names.LABEL_PART_OF: "hermes"})
    assert not matches(agents["podSelector"], {"app": "something else"})


def test_ingress_and_route_show_webhooks_only_unless_asked(render, helm) -> None:
    paths = [
        path["path"] for path in render("everything").of("Ingress")["ours-gateway"]["spec"]["rules"][0]["http"]["paths"]
    ]
    assert paths == ["/webhooks", "/slack", "/telegram", "/v1", "/api"]
    values = {"ingress": {"enabled": True}, "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}
    done = helm("template", "ours", str(CHART), values=values)
    objects = {found["kind"]: found for found in yaml.safe_load_all(done.stdout) if found}
    assert [path["path"] for path in objects["Ingress"]["spec"]["rules"][0]["http"]["paths"]] == ["/webhooks"]
    assert len(objects["HTTPRoute"]["spec"]["rules"]) == 1


def test_budgets_exist_only_where_one_can_go(render) -> None:
    assert set(render("default").of("PodDisruptionBudget")) == {
        f"ours-{c}" for c in ("operator", "gateway", "store", "models")
    }
    assert not render("laptop").of("PodDisruptionBudget")
