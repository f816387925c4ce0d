#!/bin/bash
# Installs what development needs and the machine lacks. Quick when there is nothing to do. Ends with one line that says what is
# missing when it may not install it itself.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { echo "setup: $1" >&2; exit 1; }

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || need "Python 3.11 or later is missing: install python3 and python3-venv"

if ! [ -x /usr/bin/pg_ctlcluster ] && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || need "PostgreSQL's programs are missing: apt-get install postgresql"
  echo "setup: installing PostgreSQL (Debian's package, about 30 s)"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null
fi

stamp=.venv/.locked
if [ ! -f "$stamp" ] || [ locks/dev.txt -nt "$stamp" ]; then
  uv=$(command -v uv || true)
  if [ -z "$uv" ]; then
    [ -x .local/uv/bin/uv ] || { echo "setup: installing uv"; python3 -m venv .local/uv && .local/uv/bin/pip install -q 'uv>=0.9'; }
    uv=.local/uv/bin/uv
  fi
  echo "setup: installing Python packages into .venv (about 20 s)"
  [ -x .venv/bin/python ] || "$uv" venv -q -p "$(command -v python3)" .venv
  "$uv" pip sync -q --require-hashes -p .venv/bin/python locks/dev.txt
  touch "$stamp"
fi
