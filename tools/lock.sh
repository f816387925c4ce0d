#!/bin/sh
# Writes locks/*.txt, one exact and hashed set of packages an image and one for development.
# They name no package index, so a mirror needs no edit (docs/decisions/0001-locks.md).
set -eu
cd "$(dirname "$0")/.."
lock() { uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate \
  --custom-compile-command "make lock" pyproject.toml "$@"; }
for extra in agent cli; do lock --extra "$extra" -o "locks/$extra.txt"; done
for extra in operator gateway; do lock --extra "$extra" --extra tracing -o "locks/$extra.txt"; done
lock --extra agent --extra operator --extra gateway --extra cli --extra tracing --group dev -o locks/dev.txt
lock --group conformance -o locks/conformance.txt
lock --group peer -o locks/peer.txt
uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make lock" \
  --group build -o locks/build.txt
