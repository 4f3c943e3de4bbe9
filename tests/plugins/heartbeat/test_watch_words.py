"""Lines of HEARTBEAT.md that ask for a watch in people's own words, in several languages."""

from __future__ import annotations

import pytest

from nanoclaw.plugins.heartbeat.checklist import parse

SEEN = (
    ("tell me when todo.txt changes", "todo.txt"),
    ("Let me know if notes/plan.md is modified", "notes/plan.md"),
    ("monitor logs/app.log for errors", "logs/app.log"),
    ("When the page https://jobs.example.org is updated, tell me what is new", "https://jobs.example.org"),
    ("whenever a new file appears in inbox/, sort it", "inbox/"),
    ("every 1h: see whether https://shop.example/ has changed", "https://shop.example/"),
    ("Has todo.txt changed? Then tell me.", "todo.txt"),
    ("tell me when either a.txt or b.txt changes", "a.txt b.txt"),
    ("Sag Bescheid, wenn sich todo.txt ändert", "todo.txt"),
    ("Melde dich, wenn notizen/plan.md geändert wurde", "notizen/plan.md"),
    ("Beobachte https://laden.example/artikel", "https://laden.example/artikel"),
    ("Behalte preise.csv im Auge", "preise.csv"),
    ("Informiere mich über Änderungen an liste.md", "liste.md"),
    ("Préviens-moi quand todo.txt change", "todo.txt"),
    ("Surveille https://magasin.example/article", "https://magasin.example/article"),
    ("Signale-moi toute modification de liste.md", "liste.md"),
    ("dès que la page https://mairie.example est mise à jour, résume-la", "https://mairie.example"),
    ("Infórmame de los cambios en lista.md", "lista.md"),
    ("en cuanto https://ayto.example se actualice, cuéntame lo nuevo", "https://ayto.example"),
    ("No pierdas de vista precios.csv", "precios.csv"),
    ("Controlla se https://negozio.example è cambiato", "https://negozio.example"),
    ("todo.txt 有变化时告诉我", "todo.txt"),
    ("todo.txt が変わったら教えて", "todo.txt"),
    ("tell me when the weather changes", "?"),
    ("Let me know if my inbox changes", "?"),
    ("keep an eye on the stock market", "?"),
    ("Sag Bescheid, wenn sich das Wetter ändert", "?"),
    ("Surveille le serveur", "?"),
    ("Avísame cuando cambie el tiempo", "?"),
    ("Vigila el servidor", "?"),
    ("Change the password in notes/keys.md every month", ""),
    ("update notes/log.md with the weather every 1d", ""),
    ("If README.md is out of date, change it", ""),
    ("When I change jobs, archive cv.pdf", ""),
    ("Buy a watch", ""),
    ("sort inbox/ every 1d", ""),
    ("write three lines into notes/diary.md every evening", ""),
    ("remind me of what is due in todo.txt", ""),
    ("check that backup.tar.gz is younger than a day", ""),
    ("Lies notizen/todo.md und sag, was offen ist", ""),
    ("Aktualisiere notizen/log.md jeden Abend", ""),
    ("Si quelque chose dans todo.txt est en retard, dis-le", ""),
    ("Lee notas/todo.md y dime qué falta", ""),
    ("Ändere nichts an liste.md, lies sie nur vor", ""),
)
"""A line, and what it watches: '?' for a wish that names nothing that code can look at, '' for no wish to watch."""

UNSEEN = (
    ("Notify me whenever https://shop.example/item/7 changes", "https://shop.example/item/7"),
    ("keep an eye on https://news.example/rss and tell me what is new", "https://news.example/rss"),
    ("Ping me as soon as inbox/ gets a new file", "inbox/"),
    ("check data/prices.csv for changes", "data/prices.csv"),
    ("Tell me about changes in `shopping list.txt`", "shopping list.txt"),
    ("report any change to config.toml", "config.toml"),
    ("if todo.txt was edited, summarise what is different", "todo.txt"),
    ("watch over the file notes/budget.md", "notes/budget.md"),
    ("alert me on updates of https://status.example.com", "https://status.example.com"),
    ("Let me know when something changes in notes/", "notes/"),
    ("track changes to README.md", "README.md"),
    ("Please watch the file letters/draft.txt", "letters/draft.txt"),
    ("once report.pdf has been updated, write me a summary", "report.pdf"),
    ("sobald die Seite https://amt.example aktualisiert wird, sag mir was neu ist", "https://amt.example"),
    ("überwache logs/app.log", "logs/app.log"),
    ("Prüfe eingang/ auf neue Dateien", "eingang/"),
    ("Dis-moi si notes/plan.md est modifié", "notes/plan.md"),
    ("Garde un œil sur prix.csv", "prix.csv"),
    ("Avísame cuando cambie todo.txt", "todo.txt"),
    ("Dime si se modifica notas/plan.md", "notas/plan.md"),
    ("Vigila https://tienda.example/articulo", "https://tienda.example/articulo"),
    ("Dimmi quando todo.txt cambia", "todo.txt"),
    ("Avisa-me quando todo.txt mudar", "todo.txt"),
    ("watch the news", "?"),
    ("monitor the server", "?"),
    ("notify me when the price drops", "?"),
    ("Behalte die Börse im Auge", "?"),
    ("Überwache den Server", "?"),
    ("Préviens-moi quand la météo change", "?"),
    ("read notes/todo.md and tell me what is open", ""),
    ("tell me when I should update notes/cv.md", ""),
    ("every morning: summarise https://news.example/ for me", ""),
    ("is the disk of the server full?", ""),
    ("water the plants every 3d", ""),
    ("clean up notes/ and merge what is double", ""),
    ("translate the changes of yesterday into French", ""),
    ("Wenn etwas in todo.txt überfällig ist, sag es mir", ""),
    ("Lis notes/todo.md et dis-moi ce qui reste", ""),
    ("Mets à jour notes/journal.md every 1d", ""),
    ("Actualiza notas/diario.md every 1d", ""),
    ("Si algo en todo.txt está vencido, dímelo", ""),
    ("if anything in todo.txt is overdue, tell me", ""),
    ("change the wallpaper every 1d", ""),
    ("compare prices.csv with prices-old.csv", ""),
    ("look at https://weather.example/berlin and say whether I need an umbrella", ""),
)
"""Written before the rules, and tried after them: 43 of 45 were understood at first sight."""


def watched(line: str) -> str:
    (item,) = parse(f"- [ ] {line}")
    if item.watch:
        return " ".join(one.target for one in (item.watch, *item.watch.more))
    return "?" if item.is_unwatched else ""


@pytest.mark.parametrize("lines", [SEEN, UNSEEN], ids=["seen", "unseen"])
def test_nineteen_of_twenty_wishes_to_watch_are_understood_and_others_are_let_alone(
    lines: tuple[tuple[str, str], ...],
) -> None:
    wrong = [(line, watched(line)) for line, expected in lines if watched(line) != expected]
    assert len(wrong) <= len(lines) / 20, wrong
    assert not [line for line, found in wrong if found not in ("", "?")], "something else is watched"
