"""Wishes to hear of a change, as people write them: which part of a line names what is to be watched."""

from __future__ import annotations

import re

LANGUAGES: dict[str, tuple[str, str, str]] = {
    "en": (
        r"when|whenever|if|whether|once|as soon as|as|every time|each time|has|have",
        r"changes|(?<!to be )changed|(?:is|was|gets|has been|have been) (?:modified|updated|edited|different|new)"
        r"|(?:has|have|gets|got) (?:a |any )?(?:new|news|updates?)|appears?|arrives?|comes in",
        r"(?:changes?|updates?|edits?|modifications?) (?:to|in|of|on|at|for)|news (?:in|on|from)|watch(?: over| for)?"
        r"|monitor|observe|track|(?:keep|have) an eye on|check(?=.* for (?:new|changes|updates))",
    ),
    "de": (
        "wenn|sobald|falls|ob|hat|wurde",
        r"(?:ge|ver)?änder\w*|aktualisier\w*|bearbeitet|(?:etwas )?neues? \w+",
        r"(?:ver)?änderung\w* (?:an|in|bei|von|auf)|neue\w* (?:dateien|einträge) in|beobachte|überwache|behalte"
        r"|achte auf|hab ein auge auf|prüfe?(?=.* auf (?:neue|änderung))",
    ),
    "fr": (
        "quand|lorsque|si|dès que|chaque fois que",
        r"change|changé|(?:est|a été|sera) (?:modifié|changé|mis)e?(?: à jour)?|se met à jour|évolue",
        r"(?:changement|modification|mise à jour|nouveauté)s? (?:de|dans|à|sur|du)|surveille[zr]?"
        r"|(?:garde|gardez|jette) un œil sur|observe[zr]?",
    ),
    "es": (
        "cuando|si|en cuanto|cada vez que",
        r"cambi[ea]n?|ha cambiado|(?:se )?modifi(?:que|ca)n?|(?:se )?actuali(?:ce|za)n?"
        r"|(?:sea|es|ha sido) (?:modific|actualiz)ad\w",
        r"(?:cambio|modificaci[oó]n|modificacione|actualizaci[oó]n|actualizacione|novedade?)s? (?:en|de|a|del)"
        r"|vigil[ae]|no pierdas de vista|observ[ae]|ten un ojo en|echa un ojo a",
    ),
    "it": (
        "quando|se|appena|non appena|ogni volta che",
        r"cambi[ai]?|(?:è|viene|sia) (?:stat\w )?(?:cambiat|modificat|aggiornat)\w",
        r"(?:modifich?e|cambiament[oi]|aggiornament[oi]|novità) (?:a|in|di|su|nel|del)|sorveglia"
        r"|tieni d'occhio|monitora",
    ),
    "pt": (
        "quando|se|assim que|sempre que",
        r"mud(?:a|e|ar|ou)|(?:for|é|foi) (?:alterad|modificad|atualizad)\w|se alterar",
        r"(?:mudança|alteraç(?:ão|õe)|atualizaç(?:ão|õe)|novidade)s? (?:em|de|no|na)|vigia|fica de olho em|monitora",
    ),
}
"""For each language: words that begin a condition, words for a change as it happens, and words that stand before what
is watched."""

_CJK = "有变化|变化时|有更新|更新时|变了|改变|被修改|が変わ|が更新|に変更|が変更"
_CJK_BEFORE = "监视|关注|留意|監視"
_PAUSE = r"[,;:.!?](?=\s|$)"


def watched_part(text: str) -> str | None:
    """The part of a line that names what is watched; None for a line that asks for no watch."""
    for clause in re.split(_PAUSE, text):
        for begins, changes, before in LANGUAGES.values():
            if found := re.match(rf"(?i)\W*(?:please |bitte |\w+ )?(?:{before})(?!\w)", clause):
                return clause[found.end() :]
            if found := re.search(rf"(?i)(?<![\w`-])(?:{before})(?!\w)(?=.*[./\\`])", clause):
                return clause[found.end() :]
            condition = re.search(rf"(?i)(?<!\w)(?:{begins})(?!\w)(.*)", clause)
            if condition and re.search(rf"(?i)(?<!\w)(?:{changes})(?!\w)", condition[1]):
                return re.sub(rf"(?i)(?<!\w)(?:{changes})(?!\w)", " ", condition[1])
        if re.search(_CJK, clause) or re.search(_CJK_BEFORE, clause):
            return re.sub(f"(?:{_CJK}|{_CJK_BEFORE})", " ", clause)
    return None
