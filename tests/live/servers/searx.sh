#!/usr/bin/env bash
# A meta search engine for the live tests: Debian's searx, which speaks SearXNG's JSON, on loopback only. The one engine
# that it asks is a small index beside it, so that nothing leaves the machine.
#
#   searx.sh start|stop|status    with NANOCLAW_TEST_SEARX_PORT (default 3560): two ports from there on
#
#   +0 searx   +1 the index; what it cannot find at all is "No such words", and "break" makes the engine fail
set -euo pipefail

port=${NANOCLAW_TEST_SEARX_PORT:-3560}
data=${TMPDIR:-/tmp}/nanoclaw-live/run/searx-$port

install() {
    [ -x /usr/bin/searx-run ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends searx >/dev/null
}

alive() {
    [ -f "$data/$1.pid" ] && kill -0 "$(cat "$data/$1.pid")" 2>/dev/null
}

start() {
    install
    mkdir -p "$data"
    cat >"$data/index.py" <<'PYTHON'
import http.server, json, sys, urllib.parse

PAGES = [
    {"title": "River bridge rebuilt", "url": "http://a.example/bridge", "content": "The council voted to rebuild it"},
    {"title": "Frobnicate: docs", "url": "http://b.example/docs", "content": "Turn a widget inside out"},
]

class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        words = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("q", [""])[0].lower().split()
        found = [page for page in PAGES if any(word in (page["title"] + page["content"]).lower() for word in words)]
        self.send_response(500 if "break" in words else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({"results": found}).encode())

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Index).serve_forever()
PYTHON
    /usr/bin/python3 - "$data/settings.yml" "$port" <<'PYTHON'
import gzip, os, sys, yaml

example = "/usr/share/doc/searx/examples/settings.yml"
with open(example) if os.path.exists(example) else gzip.open(example + ".gz", "rt") as file:
    settings = yaml.safe_load(file)
port = int(sys.argv[2])
settings["search"]["formats"] = ["html", "json"]
settings["server"].update(port=port, bind_address="127.0.0.1", secret_key="test", limiter=False, image_proxy=False)
settings["outgoing"].update(request_timeout=3.0, enable_http=True)
settings["engines"] = [
    dict(
        name="index", engine="json_engine", shortcut="i", categories="general", enable_http=True, paging=False,
        search_url=f"http://127.0.0.1:{port + 1}/?q={{query}}", results_query="results", url_query="url",
        title_query="title", content_query="content", disabled=False,
    )
]
with open(sys.argv[1], "w") as file:
    yaml.safe_dump(settings, file)
PYTHON
    alive index || { setsid /usr/bin/python3 "$data/index.py" "$((port + 1))" >"$data/index.log" 2>&1 & echo $! >"$data/index.pid"; }
    alive searx || {
        cd "$data"
        SEARX_SETTINGS_PATH=$data/settings.yml setsid /usr/bin/python3 /usr/bin/searx-run >"$data/searx.log" 2>&1 &
        echo $! >"$data/searx.pid"
    }
    for _ in $(seq 300); do
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
        alive searx || break
        sleep 0.1
    done
    tail -20 "$data/searx.log"
    exit 1
}

stop() {
    for name in searx index; do
        alive "$name" && kill "$(cat "$data/$name.pid")"
        rm -f "$data/$name.pid"
    done
}

case ${1:-} in
start) start ;;
stop) stop ;;
status) alive searx && echo up || echo down ;;
*) echo "searx.sh start|stop|status" >&2 && exit 2 ;;
esac
