"""Count o200k tokens: a JSON list of texts on stdin, a list of counts on stdout.

tiktoken and the encoding both come with litellm, so nothing is fetched. Without them the exit status is 3.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path


def main() -> int:
    texts = json.load(sys.stdin)
    litellm = importlib.util.find_spec("litellm")
    if litellm is None or litellm.origin is None:
        return 3
    folder = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
    if not (folder / "fb374d419588a4632f3f557e76b4b70aebbca790").is_file():  # SHA-1 of the address of o200k_base
        return 3
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        import tiktoken
    except ImportError:
        return 3
    encoding = tiktoken.get_encoding("o200k_base")
    print(json.dumps([len(encoding.encode(text, disallowed_special=())) for text in texts]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
