"""Judges what a call does to a page, and whether it needs a yes: to type into it, to send or give something."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from nanoclaw.core.messages import Scope
from nanoclaw.exact_text import as_code

_ARROWS = ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")
FREE_KEYS = frozenset(("Escape", "Tab", "Shift+Tab", *_ARROWS, "PageUp", "PageDown", "Home", "End"))
"""Keys that only move about in a page."""


class Use(NamedTuple):
    """A call of browse_do: `words` complete "May I …?", `exact` is what is typed or sent. `is_look` sends
    nothing, `is_open` is at a host that the person named, `is_asked` needs a yes also where nothing was read."""

    words: str
    exact: str
    label: str
    scope: Scope | None
    is_look: bool
    is_open: bool
    is_asked: bool


def use_of(given: Mapping[str, Any], label: str, here: str, form: str, said: str) -> Use:
    """`here` is the host of the element, `form` what a click or Enter sends, `said` are the person's own words."""
    host = urlsplit(form.partition("\n")[0].removeprefix("to ")).netloc or here
    action, value = given["action"], str(given.get("value") or "")
    is_open, is_look = bool(given.get("element")) and is_named(host, said), False
    what = as_code(label, 100) if label else "an element"
    this, exact = ("a password", f"{len(value)} characters") if label.startswith("password") else ("this", value)
    is_asked = True
    match action:
        case "type":
            words = f"type {this if value else 'nothing'} into {what}{' and press Enter' * bool(given.get('enter'))}"
            is_asked = not is_open or bool(given.get("enter"))
        case "select":
            words, is_asked = f"select this in {what}", False
        case "upload":
            words = f"upload this to {what}"
        case "press":
            words = f"press {as_code(value or 'Enter', 30)}{f' in {what}' if label else ''}"
            is_look = value in FREE_KEYS
            is_asked = not is_look
        case _ if form:
            words, exact = f"send the form by {what}", form
        case _ if value:
            words = f"click {what} and give this answer to what the page then asks"
        case _:
            words, is_look, is_asked = f"click {what}", label.startswith("link "), is_buying(label, said)
    scope = Scope(f"browse:{host}", f"clicking, typing, sending and uploading at {host}", is_place=True)
    # a window that a script has filled, a form that can't be read: a yes to one says nothing of the next
    is_known = bool(host) and form[:3] in ("", "to ")
    place = f"at {host}" if host else "in a window without an address"
    return Use(f"{words} {place}", exact, label, scope if is_known else None, is_look, is_open, is_asked)


def is_named(host: str, said: str) -> bool:
    """True where a text has a host as an address or by itself; `www.` does not count. A part of another one, of a path
    or of a mail's address is none."""
    name = re.escape(host.removeprefix("www."))
    around = rf"(?<![\wÀ-ӿ@.=/-])(?:https?://)?(?:www\.)?{name}(?![\w@-]|:\d|\.\w)"
    return bool(host) and re.search(around, said, re.ASCII | re.IGNORECASE) is not None


def is_buying(label: str, said: str) -> bool:
    """True for a button that buys, as far as its words tell. One that only orders is free where the person said so."""
    if not label.startswith(("button ", "clickable ")):
        return False
    orders = _ORDERS.search(label)
    return _BUYS.search(label) is not None or (orders is not None and orders[1].casefold()[:6] not in said.casefold())


_BUYS = re.compile(
    r"(?i)\b(buy|purchase|pay|donate|kaufen|(be)?zahlen|kostenpflichtig|acheter|payer|comprar|pagar|acquista|paga|kopen"
    r"|koop|betalen|kup|kupuję|zapłać|купить|оплатить)\b|zahlungspflichtig|购买|購買|付款|支付|下单|提交订单|購入|구매|결제"
    r"|\b(place|submit|confirm|complete)( \w+)? order\b|bestellung (aufgeben|abs)|passer (la|ma) commande"
    r"|(realizar|finalizar|hacer) (el |la )?(pedido|compra)|оформить заказ|注文を?確定"
)
_ORDERS = re.compile(
    r'(?i)"(?:jetzt |nu )?(order|bestellen|commander|ordina|zamów|заказать|订购|注文する|주문하기)(?: now| ora)?"'
)
