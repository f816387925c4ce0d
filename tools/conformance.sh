#!/bin/sh
# Runs the sandbox self-check of inspect_ai against sandboxd. Its 233 MB of packages live in an environment of their own.
# Arguments are pytest's.
set -eu
cd "$(dirname "$0")/.."
PATH="$PATH:$PWD/.local/uv/bin"
venv=.local/conformance-venv
if ! cmp -s locks/conformance.txt "$venv/installed.txt"; then
  uv venv --quiet --clear "$venv"
  uv pip sync --quiet --require-hashes -p "$venv/bin/python" locks/conformance.txt
  cp locks/conformance.txt "$venv/installed.txt"
fi
exec "$venv/bin/python" -m pytest tests/conformance -c tests/conformance/pytest.ini "$@"
