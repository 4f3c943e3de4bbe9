"""Make nanoclaw/plugins/memory/frequent_words.txt from the word frequencies of the package wordfreq (3.1.1).

pip install wordfreq, then python bench/frequent_words.py. Its data are CC BY-SA 4.0, and so is that file.
"""

from __future__ import annotations

from math import log10
from pathlib import Path

from nanoclaw.plugins.memory.wording import BANDS, LANGUAGES
from nanoclaw.tokenizer import words

TARGET = Path(__file__).parents[1] / "nanoclaw/plugins/memory/frequent_words.txt"
ABOUT = """\
# Words of everyday language by how frequent they are, made by bench/frequent_words.py from the data of wordfreq by
# Robyn Speer (https://github.com/rspeer/wordfreq), which come from Wikipedia, subtitles, news, books and the web.
# Licence of this file: CC BY-SA 4.0, https://creativecommons.org/licenses/by-sa/4.0/. Changed: the most frequent words
# only, folded. A line has a language, a Zipf frequency, and the words as frequent, up to the line before.
"""


def main() -> None:
    from wordfreq import get_frequency_dict

    lines = []
    for language in LANGUAGES:
        zipf: dict[str, float] = {}
        for entry, frequency in get_frequency_dict(language, "small").items():
            value = log10(frequency) + 9
            for word in words(entry) if value >= BANDS[-1] else ():
                if word.isalpha() or "'" in word:
                    zipf[word] = max(value, zipf.get(word, 0.0))
        for above, least in zip((99.0, *BANDS), BANDS, strict=False):
            found = sorted(word for word, value in zipf.items() if least <= value < above)
            lines.append(f"{language} {least} {' '.join(found)}")
    TARGET.write_text(ABOUT + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
