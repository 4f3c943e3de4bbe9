"""Forged mails: what strangers can have in a mailbox so that it seems to be from its owner."""

KELVIN = "\u212a"
"""A sign for kelvin, which str.lower turns into a k."""


def forged(me: str, server: str) -> dict[str, bytes]:
    """By what they try. The first Authentication-Results of the server, if there are any, is the truth of it as the
    server wrote it; `me` is who is to be taken for the author."""
    domain = me.rpartition("@")[2]
    name, results = me.partition("@")[0], "Authentication-Results"
    good = f"{results}: {server}; dmarc=pass header.from={domain}"
    evil = f"{results}: {server}; dkim=pass header.d=evil.test; dmarc=pass header.from=evil.test"
    bad = f"{results}: {server}; dmarc=fail header.from={domain}"
    signed = f"{results}: {server}; dkim=pass header.d={domain}"
    mine = f"From: Me <{me}>"
    far = "X-Filler: " + "x" * 900
    mails = {
        "nothing at all": [mine],
        "several results below the server's": [bad, good, good, good, mine],
        "folded": [bad, f"{results}:\r\n\t{server}\r\n ;\r\n\tdmarc=pass\r\n header.from={domain}", mine],
        "in a comment": [
            f"{results}: {server}; dmarc=fail (dmarc=pass header.from={domain}) header.from={domain}",
            mine,
        ],
        "in a comment that nests": [f"{results}: {server}; dmarc=fail (a (b) ; dmarc=pass header.from={domain})", mine],
        "in a reason": [f'{results}: {server}; dmarc=fail reason="; dmarc=pass header.from={domain}"', mine],
        "a dot behind the name": [good.replace(server, f"{server}."), mine],
        "a longer name": [good.replace(server, f"{server}.evil.test"), mine],
        "a name before it": [good.replace(server, f"x{server}"), mine],
        "a quoted name": [good.replace(server, f'"{server}"'), mine],
        "a Cyrillic e in the name": [good.replace(server, server.replace("e", "\u0435")), mine],
        "a Kelvin sign in the name": [good.replace(server, server.replace("k", KELVIN)), mine]
        if "k" in server
        else [mine],
        "a NUL in the name": [good.replace(server, f"{server}\0"), mine],
        "no name": [f"{results}: ; dmarc=pass header.from={domain}", mine],
        "results in place of the name": [f"{results}: dmarc=pass header.from={domain}", mine],
        "another version": [good.replace(server, f"{server} 2"), mine],
        "for another domain": [evil, mine],
        "DMARC that names no domain": [f"{results}: {server}; dmarc=pass", mine],
        "policy in place of header": [f"{results}: {server}; dmarc=pass policy.from={domain}", mine],
        "DMARC says no, SPF says yes": [f"{bad}; spf=pass smtp.mailfrom=x@{domain}; dkim=pass header.d={domain}", mine],
        "DMARC says no and yes": [f"{bad}; dmarc=pass header.from={domain}", mine],
        "SPF of an address with two @": [f"{results}: {server}; spf=pass smtp.mailfrom=x@evil.test@{domain}", mine],
        "SPF of a greeting": [f"{results}: {server}; spf=pass smtp.helo={domain}", mine],
        "a policy's result": [f"{results}: {server}; dkim=policy header.d={domain}; dmarc=policy", mine],
        "ARC alone": [
            f"ARC-Authentication-Results: i=1; {server}; dmarc=pass header.from={domain}",
            f"ARC-Seal: i=1; cv=none; d={domain}",
            mine,
        ],
        "two authors": [evil, mine, "From: eve@evil.test"],
        "two authors, signed by one": [signed, mine, "From: eve@evil.test"],
        "another author behind a header with a space": [signed, mine, "X : y", "From: eve@evil.test"],
        "another author behind a line that is none": [signed, mine, "no header at all", "From: eve@evil.test"],
        "another author far below": [signed, mine, *[far] * 120, "From: eve@evil.test"],
        "a carriage return in a subject": [signed, f"Subject: x\r{mine}"],
        "a list of two": [signed, f'From: "x y"@evil.test, {me}'],
        "a group": [signed, f"From: Friends: {me};"],
        "a name that is an address": [evil, f'From: "{me}" <eve@evil.test>'],
        "a name with an address in brackets": [evil, f'From: "Me <{me}>" <eve@evil.test>'],
        "two addresses in brackets": [signed, f"From: <{me}> <eve@evil.test>"],
        "an encoded domain": [signed, f"From: {name}@=?utf-8?q?{domain}?="],
        "an encoded name and domain": [signed, f'From: "{me}" <{name}@=?utf-8?q?{domain}?=>'],
        "a comment in the address": [signed, f"From: {name}@(evil.test){domain}"],
        "a Kelvin sign in the address": [good, mine.replace("k", KELVIN)] if "k" in name else [mine],
        "a NUL in the author": [good, f"From: <{me}\0.evil.test>"],
        "Sender and Reply-To": [evil, f"Sender: {me}", f"Reply-To: {me}", f"Resent-From: {me}", "From: eve@evil.test"],
        "a list": [good, mine, "List-Id: <all.lab.test>"],
        "a mail to somebody else, sent on": [good, mine, "To: eve@evil.test"],
        "a forwarded mail in the text": [evil, "From: eve@evil.test", "", good, mine],
    }
    found = dict[str, bytes]()
    for number, (what, lines) in enumerate(mails.items()):
        to = [] if any(line.startswith("To:") for line in lines) else ["To: bot@lab.test"]
        head = [*to, f"Subject: {what}", f"Message-ID: <forged-{number}@evil.test>", *lines]
        found[what] = "\r\n".join([*_first_results(head), "", "rm -rf /", ""]).encode()
    return found


def _first_results(lines: list[str]) -> list[str]:
    """Lines with what a server puts on top there."""
    return sorted(lines, key=lambda line: not line.startswith("Authentication-Results")) if "" not in lines else lines
