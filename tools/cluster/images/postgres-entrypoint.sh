#!/bin/sh
# Starts PostgreSQL, and makes a new database first where PGDATA is empty. Takes POSTGRES_USER, POSTGRES_PASSWORD or
# POSTGRES_PASSWORD_FILE, POSTGRES_DB, POSTGRES_INITDB_ARGS and /docker-entrypoint-initdb.d, as the public image does.
set -eu

fail() {
  echo "docker-entrypoint: $1" >&2
  exit 1
}

# Removes what an interrupted first start left. Files that are not from one are never touched.
clear_unfinished() {
  if [ -d "$PGDATA/.new" ]; then
    find "$PGDATA" -mindepth 1 -maxdepth 1 ! -name .new -exec rm -rf {} +
  elif [ -n "$(ls -A "$PGDATA")" ]; then
    fail "$PGDATA holds files but no database; empty it, or set PGDATA to another folder"
  fi
}

make_database() {
  : "${POSTGRES_USER:=postgres}" "${POSTGRES_DB:=$POSTGRES_USER}"
  if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
    POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
  fi
  [ -n "${POSTGRES_PASSWORD:-}" ] || fail "the database is new and has no password: set POSTGRES_PASSWORD_FILE or POSTGRES_PASSWORD"
  # Half a database must not be taken for a whole one after a crash: it is made beside and moved.
  fresh=$PGDATA/.new
  rm -rf "$fresh"
  mkdir -m 700 "$fresh"
  secret=$(mktemp)
  printf '%s\n' "$POSTGRES_PASSWORD" > "$secret"
  # shellcheck disable=SC2086
  initdb --pgdata="$fresh" --username="$POSTGRES_USER" --pwfile="$secret" --auth-host=scram-sha-256 --auth-local=trust \
    --encoding=UTF8 --locale=C.UTF-8 ${POSTGRES_INITDB_ARGS:-}
  rm -f "$secret"
  echo "host all all all scram-sha-256" >> "$fresh/pg_hba.conf"
  echo "listen_addresses = '*'" >> "$fresh/postgresql.conf"
  pg_ctl --pgdata="$fresh" --wait --options="-c listen_addresses='' -c unix_socket_directories=/tmp" start
  if [ "$POSTGRES_DB" != postgres ]; then
    psql --host=/tmp --username="$POSTGRES_USER" --dbname=postgres --no-psqlrc -v ON_ERROR_STOP=1 -v name="$POSTGRES_DB" <<'SQL'
CREATE DATABASE :"name";
SQL
  fi
  for script in /docker-entrypoint-initdb.d/*; do
    case $script in
      *.sql) psql --host=/tmp --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" --no-psqlrc -v ON_ERROR_STOP=1 --file="$script" ;;
      *.sh) PGHOST=/tmp sh "$script" ;;
    esac
  done
  pg_ctl --pgdata="$fresh" --wait --mode=fast stop
  for entry in "$fresh"/*; do
    [ "${entry##*/}" = PG_VERSION ] || mv "$entry" "$PGDATA/"
  done
  mv "$fresh/PG_VERSION" "$PGDATA/"
  rmdir "$fresh"
}

# `docker run image -c setting=value` means the server too.
case ${1:-} in
  -*) set -- postgres "$@" ;;
esac
if [ "${1:-}" = postgres ]; then
  [ "$(id -u)" != 0 ] || fail "PostgreSQL refuses to run as root; give the pod a runAsUser, for example 999"
  mkdir -p "$PGDATA"
  [ "$(stat -c %u "$PGDATA")" = "$(id -u)" ] || fail "$PGDATA belongs to another user; set PGDATA to a folder below the volume"
  chmod 700 "$PGDATA"
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    clear_unfinished
    make_database
  fi
  unset POSTGRES_PASSWORD POSTGRES_PASSWORD_FILE
  set -- "$@" -D "$PGDATA"
fi
exec "$@"
