"""Evidence that the prompt shows, and small talk that recalls nothing: bench/recall.py HARNESS [--vectors] [SET …]

HARNESS is a folder with recall_bench.py and its data, which are not part of this repository. A SET is a name of its
data and a layout, as in "locomo/facts". Evidence that no note has is left out. --vectors adds those of local/use.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import recall_adapter

SETS = (
    *("locomo/bullets", "locomo/facts", "locomo_merged/bullets", "locomo_typo/bullets", "locomo_followup/bullets"),
    *("locomo_noisyhist/bullets", "beam100k/bullets", "madial_en/bullets", "madial_zh/bullets", "zh_own/bullets"),
)


def main(folder: Path, wanted: list[str]) -> None:
    sys.path.insert(0, str(folder))
    harness: Any = importlib.import_module("recall_bench")
    print(f"{'':26}{'asked':>6}{'shown':>8}{'uncut':>8}{'silent':>8}   ranking, 500 / 1,000 / 2,000 tokens")
    for name in wanted or SETS:
        dataset, _, layout = name.partition("/")
        conversations = [one for one in sorted((folder / "data" / dataset).iterdir()) if (one / layout).is_dir()]
        if not conversations:
            print(f"{name:26}no notes")
            continue
        shown, uncut, silent = list[float](), list[float](), 0
        for conversation in conversations:
            workspace = harness.Workspace(str(conversation / layout))
            for line in (conversation / "questions.jsonl").read_text("utf-8").splitlines():
                question = json.loads(line)
                gold = [each for each in question["gold"] if each in workspace.id2]
                if not gold:
                    continue
                asked = str(conversation / layout), question["query"], question.get("history") or [], question["now"]
                found = recall_adapter.shown(*asked)
                silent += not found
                lines = {(file, row) for file, first, last, _ in found for row in range(first, last + 1)}
                shown.append(sum(not lines.isdisjoint(workspace.id2[each]) for each in gold) / len(gold))
                whole = set().union(*workspace.covered(found))
                uncut.append(sum(not whole.isdisjoint(workspace.id2[each]) for each in gold) / len(gold))
        ranked, *_ = harness.run(recall_adapter.ranked, str(folder / "data"), {dataset}, layout)
        ranking = " / ".join(f"{harness.mean(ranked[dataset]['ALL'], f'R@{t}t'):.1%}" for t in (500, 1000, 2000))
        print(f"{name:26}{len(shown):6}{_share(shown):8.1%}{_share(uncut):8.1%}{silent / len(shown):8.1%}   {ranking}")


def talk() -> None:
    """Print for each language how much small talk recalls nothing, over notes of which half are small talk, too."""
    sentences = json.loads(
        Path(__file__).parents[1].joinpath("tests/plugins/memory/small_talk.json").read_text("utf-8")
    )
    print(f"\n{'':26}{'small talk silent':>18}{'questions silent':>18}{'their note shown':>18}")
    for language, lists in sentences.items():
        silent, found = list[float](), list[bool | None]()
        for half in (0, 1):
            with tempfile.TemporaryDirectory() as folder:
                lines = [*(f"Petra: {each}" for each in lists["small_talk"][1 - half :: 2]), *lists["asked"].values()]
                for day in range(10):
                    note = Path(folder, "memory", f"2026-04-{10 + day}.md")
                    note.parent.mkdir(exist_ok=True)
                    note.write_text("".join(f"- {line}\n" for line in lines[day::10]), "utf-8")
                for each in lists["small_talk"][half::2]:
                    silent.append(not recall_adapter.shown(folder, each, (), "2026-05-03T12:00:00"))
                for question, answer in lists["asked"].items() if half else ():
                    texts = [text for *_, text in recall_adapter.shown(folder, question, (), "2026-05-03T12:00:00")]
                    found.append(answer in texts if texts else None)
        none, right = found.count(None) / len(found), found.count(True) / len(found)
        print(f"{language:26}{_share(silent):18.0%}{none:18.0%}{right:18.0%}")


def _share(values: list[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    if "--vectors" in sys.argv:
        sys.argv.remove("--vectors")
        recall_adapter.vectors = "local/use"
    main(Path(sys.argv[1]), sys.argv[2:])
    talk()
