#!/bin/bash
# The MCP servers of the npm registry and of PyPI, in a folder of their own: install prints it; "http PORT" serves everything there, on loopback.
set -euo pipefail
BASE=${NANOCLAW_TEST_SERVERS:-${TMPDIR:-/tmp}/nanoclaw-live}/mcp
install() {
  mkdir -p "$BASE"
  [ -d "$BASE/node_modules/@modelcontextprotocol/server-everything" ] || ( cd "$BASE" && npm install --no-audit --no-fund --silent \
    @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-memory >&2 )
  [ -x "$BASE/venv/bin/mcp-server-time" ] || { python3 -m venv "$BASE/venv" && "$BASE/venv/bin/pip" install -q mcp-server-time >&2; }
  echo "$BASE"
}
http() {
  # it listens on every address: the preload keeps it on loopback
  echo "const n=require('net');const L=n.Server.prototype.listen;n.Server.prototype.listen=function(p,...a){return ((typeof p==='number'||typeof p==='string')&&typeof a[0]!=='string')?L.call(this,p,'127.0.0.1',...a):L.call(this,p,...a)}" > "$BASE/loopback.cjs"
  PORT=$1 exec node --require "$BASE/loopback.cjs" "$BASE/node_modules/@modelcontextprotocol/server-everything/dist/index.js" streamableHttp
}
"$@"
