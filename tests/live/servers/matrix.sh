#!/usr/bin/env bash
# Matrix's reference homeserver, Synapse, for the live tests: from the package index into a virtual environment of its
# own, with SQLite, on loopback only. Usage: matrix.sh start|stop|wipe|status. Starting it twice is one start.
# Tests make their users themselves, with the shared secret below.
set -euo pipefail

base=${TMPDIR:-/tmp}/nanoclaw-live
venv=$base/venvs/synapse
port=${NANOCLAW_TEST_MATRIX_PORT:-8018}
data=$base/run/matrix-$port
pid_file=$data/homeserver.pid
python=${PYTHON:-python3}

is_up() {
    [ -f "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null
}

answers() {
    "$python" -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=2)' \
        "http://127.0.0.1:$port/_matrix/client/versions" 2>/dev/null
}

install() {
    [ -x "$venv/bin/synapse_homeserver" ] && return
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet 'matrix-synapse>=1.140,<2'
}

configure() {
    [ -f "$data/homeserver.yaml" ] && return
    mkdir -p "$data"
    cat >"$data/homeserver.yaml" <<YAML
server_name: localhost
pid_file: $pid_file
public_baseurl: http://127.0.0.1:$port/
listeners:
  - port: $port
    type: http
    tls: false
    bind_addresses: ["127.0.0.1"]
    resources: [{names: [client, media]}]
database: {name: sqlite3, args: {database: $data/homeserver.db}}
log_config: $data/log.yaml
media_store_path: $data/media
signing_key_path: $data/signing.key
registration_shared_secret: nanoclaw-live
macaroon_secret_key: nanoclaw-live
form_secret: nanoclaw-live
enable_registration: false
report_stats: false
trusted_key_servers: []
federation_domain_whitelist: []
url_preview_enabled: false
enable_authenticated_media: true
max_upload_size: 50M
# the tests write faster than people do
rc_message: &fast {per_second: 1000, burst_count: 1000}
rc_registration: *fast
rc_login: {address: *fast, account: *fast, failed_attempts: *fast}
rc_admin_redaction: *fast
rc_joins: {local: *fast, remote: *fast}
rc_invites: {per_room: *fast, per_user: *fast, per_issuer: *fast}
YAML
    cat >"$data/log.yaml" <<YAML
version: 1
handlers: {file: {class: logging.FileHandler, filename: $data/homeserver.log}}
root: {level: WARNING, handlers: [file]}
disable_existing_loggers: false
YAML
    "$venv/bin/python" -m synapse.app.homeserver --config-path "$data/homeserver.yaml" --generate-keys
}

start() {
    install
    configure
    if ! is_up; then
        cd "$data"
        nohup "$venv/bin/python" -m synapse.app.homeserver --config-path "$data/homeserver.yaml" \
            >"$data/stdout.log" 2>&1 </dev/null &
        echo $! >"$pid_file"
    fi
    for _ in $(seq 240); do
        answers && return
        is_up || break
        sleep 0.25
    done
    tail -20 "$data/stdout.log" "$data/homeserver.log" >&2 || true
    echo "Synapse did not start." >&2
    exit 1
}

stop() {
    is_up || return 0
    local pid
    pid=$(cat "$pid_file")
    kill "$pid"
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    rm -f "$pid_file"
}

case ${1:-} in
start) start && echo "http://127.0.0.1:$port" ;;
stop) stop ;;
wipe) stop && rm -rf "$data" ;;
status) is_up && echo up || echo down ;;
*) echo "usage: $0 start|stop|wipe|status" >&2 && exit 2 ;;
esac
