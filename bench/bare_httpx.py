"""The least an agent on httpx can be: streamed requests, lines of files read as asked for, the answer printed.

Usage: bare_httpx.py URL
"""

import json
import sys
from pathlib import Path

import httpx

messages = [{"role": "user", "content": "hi"}]
calls = None
with httpx.Client(trust_env=False) as client:
    while calls is None or calls:
        body = {"model": "bench", "messages": messages, "stream": True}
        said, calls = "", {}
        with client.stream("POST", sys.argv[1] + "/chat/completions", json=body) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        said += choice["delta"].get("content") or ""
                        for call in choice["delta"].get("tool_calls") or ():
                            calls[call["index"]] = call
        messages.append({"role": "assistant", "content": said, "tool_calls": list(calls.values())})
        for call in calls.values():
            asked = json.loads(call["function"]["arguments"])
            lines = Path(asked["path"]).read_text().splitlines()[asked["offset"] - 1 :][: asked["limit"]]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "\n".join(lines)})
print(said)
