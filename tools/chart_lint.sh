#!/bin/sh
# Lints the chart: helm lint, kubeconform (against the cluster's own API and our kinds), kube-score, kube-linter.
# Needs helm and kubectl on the PATH and a cluster: eval "$(PYTHONPATH=tools python3 -m cluster env)".
# kubeconform, kube-score and kube-linter are built from their Go modules into a cache when they are not on the PATH.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hermes-lint
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$cache"
PATH=$PATH:$cache

need() { # program module version: on the PATH, or built
  command -v "$1" > /dev/null || (cd / && echo "building $1 $3 (about two minutes)" && GOBIN=$cache go install "$2@$3")
}

echo "helm lint"
helm lint charts/hermes --strict

"$python" tools/chart_readme.py --check
kubectl get --raw /openapi/v2 | "$python" tools/chart_schemas.py "$work/schemas"
# What a plain cluster does not know is not ours to describe.
skip=ServiceMonitor,HTTPRoute,CustomResourceDefinition
render() { helm template hermes charts/hermes --namespace hermes "$@"; }
render > "$work/default.yaml"
render --values charts/hermes/values-local.yaml > "$work/laptop.yaml"
render --set external.bus.url=nats://bus.example:4222 --set external.database.host=db.example --set ingress.enabled=true \
  --set 'tenants={team-a,team-b}' --set-json 'metrics={"from":[{"namespaceSelector":{}}],"serviceMonitor":{"enabled":true}}' \
  > "$work/external.yaml"

need kubeconform github.com/yannh/kubeconform/cmd/kubeconform v0.8.0
for file in "$work"/*.yaml manifests/samples/*.yaml; do
  [ -e "$file" ] || continue
  echo "kubeconform ${file##*/}"
  kubeconform -strict -summary -skip "$skip" \
    -schema-location "$work/schemas/{{ .ResourceKind }}-{{ .Group }}-{{ .ResourceAPIVersion }}.json" "$file"
done

need kube-score github.com/zegl/kube-score/cmd/kube-score v1.20.0
for file in "$work"/*.yaml; do
  echo "kube-score ${file##*/}"
  # A CPU limit throttles where nothing is short. Tags are fixed, so pulling at each start buys nothing. Nobody looks a pod of
  # a StatefulSet up by its name, so its Service need not be headless. PostgreSQL's UID is its image's. Replicas are spread by
  # topologySpreadConstraints.
  if ! kube-score score --kubernetes-version v1.33 --output-format ci --ignore-container-cpu-limit \
    --enable-optional-test container-seccomp-profile --ignore-test container-image-pull-policy \
    --ignore-test statefulset-has-servicename --ignore-test container-security-context-user-group-id \
    --ignore-test deployment-has-host-podantiaffinity --ignore-test deployment-replicas "$file" > "$work/score"; then
    grep CRITICAL "$work/score"
    exit 1
  fi
done

if need kube-linter golang.stackrox.io/kube-linter/cmd/kube-linter latest; then
  kube-linter lint --config tools/kube-linter.yaml "$work/default.yaml" "$work/laptop.yaml" "$work/external.yaml"
else
  echo "kube-linter: NOT RUN, as its Go module could not be had here; put the program on the PATH" >&2
  [ -n "${ALLOW_MISSING_LINTERS:-}" ] || exit 1
fi
