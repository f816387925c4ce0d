"""What the chart tells the processes is what they understand, and what it mounts is what the operator makes."""

import importlib
import json
import re
from pathlib import Path

import pytest
import yaml

from hermes_contracts.crd.profile import ProfileSpec
from hermes_contracts.installation import INSTALLATION_SECRETS

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts/hermes"
SETTINGS = {
    "operator": ("hermes_operator.settings", "OperatorSettings"),
    "gateway": ("hermes_gateway.gateway.settings", "GatewaySettings"),
    "store": ("hermes_gateway.store.settings", "StoreSettings"),
    "models": ("hermes_gateway.models.settings", "ModelsSettings"),
    "scripted-model": ("scripted_model.__main__", "Settings"),
}


def environment(pod: dict) -> dict[str, str]:
    return {found["name"]: found.get("value", "from-a-field") for found in pod["spec"]["containers"][0].get("env", [])}


def mounted_secrets(pod: dict) -> dict[str, bool]:
    """Names of Secrets that a pod mounts."""
    names = {}
    for volume in pod["spec"].get("volumes", []):
        for source in [volume, *volume.get("projected", {}).get("sources", [])]:
            if "secret" in source:
                names[source["secret"].get("secretName") or source["secret"]["name"]] = True
    return names


@pytest.mark.parametrize("process", SETTINGS)
def test_every_variable_is_a_setting_and_every_value_is_accepted(chart, process, monkeypatch) -> None:
    pod = chart.pods().get(f"ours-{process}")
    if pod is None:
        pytest.skip(f"{process} is switched off in these values")
    module, name = SETTINGS[process]
    settings = getattr(importlib.import_module(module), name)
    variables = environment(pod)
    assert {key.removeprefix("HERMES_").lower() for key in variables} <= set(settings.model_fields)
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    settings()


def test_pods_mount_secrets_that_the_operator_makes_and_nobody_else_does(chart) -> None:
    made = {secret.name("ours") for secret in INSTALLATION_SECRETS}
    given_by_people = {"routes", "keys", "slack", "telegram", "bucket"}
    mounted = {name for pod in chart.pods().values() for name in mounted_secrets(pod)}
    assert mounted - given_by_people <= made
    assert not chart.of("Secret")


def test_keys_that_the_chart_reads_are_keys_that_the_operator_writes(render) -> None:
    keys = {secret.name("ours"): secret.keys for secret in INSTALLATION_SECRETS}
    pods = render("default").pods()
    files = {
        "ours-bus-server": ["auth.conf"],
        "ours-postgres": [environment(pods["ours-database"])["POSTGRES_PASSWORD_FILE"].rpartition("/")[2]],
        "ours-token-public": [environment(pods["ours-models"])["HERMES_TOKEN_PUBLIC_KEY_FILE"].rpartition("/")[2]],
    }
    for secret, names in files.items():
        assert set(names) <= set(keys[secret])
    config = render("default").of("ConfigMap")["ours-bus"]["data"]["nats.conf"]
    assert 'include "auth.conf"' in config
    assert "sync_interval: always" in config
    assert "max_control_line: 64KB" in config, "the JWT of a service is longer than the 4 KB of the default"


def test_files_are_mounted_where_the_processes_look(render) -> None:
    pods = render("everything").pods()
    for process in ("gateway", "store", "models"):
        module, name = SETTINGS[process]
        settings = getattr(importlib.import_module(module), name)
        mounts = {found["mountPath"] for found in pods[f"ours-{process}"]["spec"]["containers"][0]["volumeMounts"]}
        files = {
            key: field.default for key, field in settings.model_fields.items() if key.endswith("_file") and field.default
        }
        assert {key: str(path) for key, path in files.items() if str(path.parent) not in mounts} == {}, process


def test_the_first_profile_is_one_that_the_kind_accepts(render) -> None:
    spec = json.loads(environment(render("default").pods()["ours-operator"])["HERMES_FIRST_PROFILE"])
    assert ProfileSpec.model_validate(spec).model.provider == "scripted"
    assert "HERMES_FIRST_PROFILE" not in environment(render("bare").pods()["ours-operator"])


def test_one_registry_holds_for_every_image_of_agents_too(render) -> None:
    pods = render("everything").pods()
    images = [pod["spec"]["containers"][0]["image"] for pod in pods.values()]
    variables = environment(pods["ours-operator"])
    images += [variables["HERMES_AGENT_IMAGE"], variables["HERMES_SANDBOX_IMAGE"]]
    assert all(image.startswith("mirror.example/all/") for image in images)
    assert variables["HERMES_AGENT_IMAGE"].endswith("@sha256:" + "0" * 64)
    assert json.loads(variables["HERMES_IMAGE_PULL_SECRETS"]) == ["pull"]


def test_external_services_replace_the_bundled_ones(render) -> None:
    chart = render("external")
    assert not chart.of("StatefulSet")
    assert not {"ours-bus", "ours-database"} & (set(chart.of("Service")) | set(chart.of("ServiceAccount")))
    for process in ("operator", "gateway", "store", "models"):
        assert environment(chart.pods()[f"ours-{process}"])["HERMES_BUS_URL"] == "nats://bus.example:4333"
    store = environment(chart.pods()["ours-store"])
    assert (store["HERMES_DATABASE_HOST"], store["HERMES_DATABASE_PORT"]) == ("db.example", "5433")
    assert environment(chart.pods()["ours-operator"])["HERMES_BUS_SELECTOR"] == "{}"


def test_a_bucket_is_the_stores_alone(render) -> None:
    chart = render("external")
    store = environment(chart.pods()["ours-store"])
    assert (store["HERMES_ARCHIVE_S3_BUCKET"], store["HERMES_ARCHIVE_S3_ENDPOINT"]) == ("files", "https://s3.example")
    holders = [name for name, pod in chart.pods().items() if "bucket" in json.dumps(pod["spec"].get("volumes", []))]
    assert holders == ["ours-store"]
    egress = chart.of("NetworkPolicy")["ours-store"]["spec"]["egress"]
    assert 9000 in [port["port"] for rule in egress for port in rule["ports"]]
    assert "HERMES_ARCHIVE_S3_BUCKET" not in environment(render("default").pods()["ours-store"])


def test_an_agent_finds_the_bus_and_models_from_any_namespace(render) -> None:
    chart = render("everything")
    variables = environment(chart.pods()["ours-operator"])
    for url, service in ((variables["HERMES_BUS_URL"], "ours-bus"), (variables["HERMES_MODELS_URL"], "ours-models")):
        host, _, port = url.rpartition("//")[2].partition(":")
        assert host == f"{service}.home.svc"
        assert int(port) in [found["port"] for found in chart.of("Service")[service]["spec"]["ports"]]


def test_no_template_makes_what_it_could_not_keep_or_runs_at_installation() -> None:
    forbidden = re.compile(
        r"rand(Alpha|AlphaNum|Ascii|Numeric|Bytes|Int)|genCA|genPrivateKey|genSelfSigned|genSigned|uuidv4|lookup|htpasswd|\bnow\b"
    )
    for path in (CHART / "templates").rglob("*.*"):
        text = path.read_text()
        actions = "".join(re.findall(r"\{\{.*?\}\}", text, re.DOTALL))
        assert not forbidden.search(re.sub(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}", "", actions, flags=re.DOTALL)), path.name
        assert set(re.findall(r"helm\.sh/hook: (\S+)", text)) <= {"test"}, path.name


def test_definitions_stay_when_the_chart_goes(render) -> None:
    found = render("default").of("CustomResourceDefinition")
    assert len(found) >= 2
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in found.values())


def test_values_for_a_laptop_are_values() -> None:
    def paths(value: object, prefix: str = "") -> set[str]:
        if not isinstance(value, dict):
            return {prefix}
        return {path for key, child in value.items() for path in paths(child, f"{prefix}.{key}")}

    local = paths(yaml.safe_load((CHART / "values-local.yaml").read_text()))
    assert local <= paths(yaml.safe_load((CHART / "values.yaml").read_text()))
