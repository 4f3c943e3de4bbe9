"""The least an agent on httpx can be: one streamed request, its text printed. Usage: bare_httpx.py URL"""

import json
import sys

import httpx

body = {"model": "bench", "messages": [{"role": "user", "content": "hi"}], "stream": True}
with (
    httpx.Client(trust_env=False) as client,
    client.stream("POST", sys.argv[1] + "/chat/completions", json=body) as response,
):
    for line in response.iter_lines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                print(choice["delta"].get("content") or "", end="")
print()
