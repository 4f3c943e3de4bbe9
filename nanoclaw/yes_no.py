"""The words of yes and no in the languages of people."""

from __future__ import annotations

YES = frozenset(
    {
        *("yes", "y", "yep", "yeah", "ja", "jo", "jawohl", "oui", "ouais", "sí", "si", "sì", "sim", "да", "tak"),
        *("ano", "evet", "はい", "是", "是的", "好", "好的", "可以", "نعم", "👍", "✅", "yes please", "ja bitte"),
    }
)
NO = frozenset(
    {
        *("no", "n", "nope", "nein", "nee", "non", "não", "nao", "нет", "nie", "hayır", "いいえ", "不", "不要"),
        *("不行", "否", "لا", "👎", "❌", "no thanks", "nein danke"),
    }
)


def yes_or_no(text: str) -> bool | None:
    """The meaning of a bare yes or no; None for any other words."""
    word = " ".join(text.replace(",", " ").split()).rstrip(".!").casefold()
    return True if word in YES else False if word in NO else None
