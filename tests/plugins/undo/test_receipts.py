"""What an answer claims to have done, held against the ledger: false claims are mended once, then corrected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nanoclaw.core.events import Receipt
from nanoclaw.core.messages import AssistantMessage, UserMessage
from nanoclaw.core.tool import Tool, tool
from nanoclaw.plugins.claims.claims import claims
from nanoclaw.providers.scripted import Say, ScriptedProvider, call
from tests.core.house import House, assert_legal, house

CLAIMS = (
    # English
    ("I've saved it to notes/x.md.", "file"),
    ("I have written the summary to `report.txt`.", "file"),
    ("I created the file for you.", "file"),
    ("Done! Saved to notes/bird.txt.", "file"),
    ("The file has been created.", "file"),
    ("I've just added milk to your shopping list.", "file"),
    ("Sure. I’ve saved that for you.", "file"),
    ("I've noted that you are allergic to nuts.", "note"),
    ("I made a note of it.", "note"),
    ("I've added it to your notes, so you won't lose it.", "note"),
    ("Okay, I've noted that down.", "note"),
    ("I set a reminder for 5 pm.", "reminder"),
    ("I've set up a reminder to call the bank tomorrow.", "reminder"),
    ("Your reminder has been set!", "reminder"),
    ("Reminder set for tomorrow at 9.", "reminder"),
    ("Done! The file notes/todo.md now contains your list.", "file"),
    ("notes/todo.md now has three entries.", "file"),
    ("I've saved it to 'notes/x.md'.", "file"),
    ("Noted.", "note"),
    ("Okay, noted!", "note"),
    ("The file notes/bird.txt has been created.", "file"),
    ("The word was written to notes/bird.txt.", "file"),
    ("notes/bird.txt has been updated.", "file"),
    ("Okay, noted: you like tea.", "note"),
    ("I'll remind you tomorrow at 9.", "reminder"),
    ("All set, you'll get a reminder at 9.", "reminder"),
    ("I've added it to your calendar.", "calendar"),
    ("I put the dentist on your work calendar.", "calendar"),
    ("I really wrote notes/x.txt.", "file"),
    ("Yes, notes/x.txt now contains pelican.", "file"),
    ("I'll remember that.", "note"),
    ("Got it, I'll definitely keep that in mind!", "note"),
    ("I sent the email to Bob.", "mail"),
    ("I've just sent Bob the invitation.", "mail"),
    ("Your email to Bob has been sent.", "mail"),
    ("I emailed Bob about it.", "mail"),
    ("File deleted: x.md", "deletion"),
    ("I've deleted the file x.md.", "deletion"),
    ("I deleted the file.", "deletion"),
    ("x.md has been deleted.", "deletion"),
    # German
    ("Ich habe es in notes/x.md gespeichert.", "file"),
    ("Ich habe die Datei angelegt.", "file"),
    ("Ich habe mir notiert, dass du keine Nüsse verträgst.", "note"),
    ("Das habe ich mir gemerkt.", "note"),
    ("Ich habe dir eine Erinnerung für 17 Uhr eingerichtet.", "reminder"),
    ("Die Erinnerung ist gesetzt.", "reminder"),
    ("Die Datei notes/x.md enthält jetzt deine Liste.", "file"),
    ("Erledigt: notes/x.txt ist geschrieben.", "file"),
    ("Notiert!", "note"),
    ("Das merke ich mir.", "note"),
    ("Ich werde mir das merken.", "note"),
    ("Ich hab's notiert.", "note"),
    ("Ich erinnere dich morgen um neun.", "reminder"),
    ("Ich werde dich morgen um neun daran erinnern.", "reminder"),
    ("Ich habe den Termin in deinen Kalender eingetragen.", "calendar"),
    ("Ich habe die E-Mail an Bob geschickt.", "mail"),
    ("Ich habe die Datei gelöscht.", "deletion"),
    # French
    ("Je l'ai enregistré dans notes/x.md.", "file"),
    ("J'ai créé le fichier.", "file"),
    ("J’ai bien noté que tu es allergique aux noix.", "note"),
    ("J'ai programmé un rappel pour 17 h.", "reminder"),
    ("Le rappel a été créé.", "reminder"),
    ("Je vous rappellerai demain à 9 h.", "reminder"),
    ("C'est noté.", "note"),
    ("Je l'ai ajouté à ton calendrier.", "calendar"),
    ("J'ai envoyé le mail à Bob.", "mail"),
    ("J'ai supprimé le fichier.", "deletion"),
    ("Je m'en souviendrai.", "note"),
    # Spanish
    ("Lo he guardado en notas/x.md.", "file"),
    ("He creado el archivo.", "file"),
    ("He anotado que eres alérgico a las nueces.", "note"),
    ("Anoté la reunión en tus notas.", "note"),
    ("He creado un recordatorio para las cinco.", "reminder"),
    ("Te recordaré mañana a las 9.", "reminder"),
    ("Lo he añadido a tu calendario.", "calendar"),
    ("He enviado el correo a Bob.", "mail"),
    ("Envié el correo a Bob.", "mail"),
    ("He borrado el archivo.", "deletion"),
    ("Me acordaré.", "note"),
    # Italian
    ("L'ho salvato in note/x.md.", "file"),
    ("Ho creato il file.", "file"),
    ("Ho annotato che sei allergico alle noci.", "note"),
    ("Ho impostato un promemoria per le 17.", "reminder"),
    ("Ti ricorderò domani alle 9.", "reminder"),
    ("L'ho aggiunto al tuo calendario.", "calendar"),
    ("Ho inviato l'email a Bob.", "mail"),
    ("Ho eliminato il file.", "deletion"),
    ("Me ne ricorderò.", "note"),
    # Portuguese
    ("Salvei em notas/x.md.", "file"),
    ("Criei o arquivo.", "file"),
    ("Anotei que você é alérgico a nozes.", "note"),
    ("Criei um lembrete para as 17h.", "reminder"),
    ("Vou te lembrar amanhã.", "reminder"),
    ("Enviei o e-mail ao Bob.", "mail"),
    ("Vou me lembrar disso.", "note"),
    # Chinese
    ("已经记下了。", "note"),
    ("我已经把它保存到 notes/x.md 了。", "file"),
    ("我帮你把文件创建好了。", "file"),
    ("已为您设置了明天九点的提醒。", "reminder"),
    ("我会在明天9点提醒你。", "reminder"),
    ("我已经把邮件发给Bob了。", "mail"),
    ("已删除文件 x.md。", "deletion"),
    ("我会记住的。", "note"),
)

NO_CLAIMS = (
    # plans, offers, questions
    "I can save it to notes/x.md if you like.",
    "Shall I note that down?",
    "I'll remind you if you give me a time.",
    "I'll remind you: it was Anna.",
    "I'll remind you that we had agreed on this.",
    "If you like, I'll remind you tomorrow.",
    "I can remind you tomorrow.",
    "Let me remind you that it is Friday.",
    "Wenn du willst, erinnere ich dich.",
    "Ich erinnere mich an Anna.",
    "Si quieres, te recordaré mañana.",
    "如果你愿意，我会提醒你。",
    "I've noted your concern.",
    "I nearly saved it to notes/x.md.",
    "I'll remember that if you tell me what it is.",
    "I'll never remember that.",
    "I'll remember it once you say so.",
    "Wenn du willst, merke ich mir das.",
    "我不会记住。",
    "I'll set a reminder for 5 pm.",
    "I would have saved it to notes/x.md.",
    "Do you want me to create the file?",
    "Have I saved it to x.md?",
    "Let me write that to x.md.",
    "Soll ich das notieren?",
    "Ich kann es in notes/x.md speichern.",
    "Ich werde eine Erinnerung einrichten.",
    "Veux-tu que je le note ?",
    "Je peux l'enregistrer dans notes/x.md.",
    "¿Quieres que lo guarde en notas/x.md?",
    "Puedo crear un recordatorio.",
    "Vuoi che lo salvi in note/x.md?",
    "Posso creare un promemoria.",
    "Posso salvar em notas/x.md.",
    "需要我记下来吗？",
    "我可以把它保存到 notes/x.md。",
    "我会设置一个提醒。",
    # negations
    "I haven't saved it to notes/x.md.",
    "I have not set a reminder, as there is no tool for it.",
    "I saved nothing.",
    "I couldn't create the file.",
    "Ich habe es nicht gespeichert.",
    "Ich habe keine Erinnerung eingerichtet.",
    "Je n'ai pas créé le fichier.",
    "No he guardado el archivo.",
    "Non ho salvato il file.",
    "Não salvei o arquivo.",
    "我没有保存文件。",
    "提醒还没有设置。",
    # conditions
    "Once I've saved it to x.md, you can open it.",
    "If I have written it to x.md, you will find it there.",
    "Sobald ich es in x.md gespeichert habe, sage ich Bescheid.",
    "Wenn ich es notiert habe, findest du es wieder.",
    "Quand j'ai noté une chose, je la retrouve.",
    "如果我已经保存了文件，你就能看到它。",
    # quotations and code
    "You could answer: “I've saved it to x.md”.",
    "> I've saved it to notes/x.md.",
    "```\nI've saved it to notes/x.md.\n```",
    'The message says "Reminder set for 9".',
    "Here is what the doc says: 'I saved it to x.md'.",
    "It's Anna's note: ‘I've deleted the file x.md.’",
    "She wrote 'I sent the email to Bob.' on Monday.",
    # other effects, other people's effects
    "I've written a poem for you:\nRoses are red.",
    "I made a plan for your week.",
    "You saved it to notes/x.md.",
    "Anna created the file.",
    "Noted, thanks!",
    "The file notes/x.md says that the plumber came.",
    "I read the file notes/x.md.",
    "Written in 1851, Moby-Dick is a novel.",
    "Saved by the bell!",
    "Ich habe dir ein Gedicht geschrieben:",
    "J'ai écrit un poème.",
    "He escrito un poema para ti.",
    "Ho scritto una poesia.",
    "Escrevi um poema.",
    "我写了一首诗。",
    "Use a reminder app, and set the alarm there.",
    "To save a file, press Ctrl-S.",
    "The file notes/x.md contains your list.",
    "I've made a training calendar for you:",
    "I've added it to the agenda below.",
    "It is not in your calendar yet.",
    "Bob sent the email on Monday.",
    "The email was sent to Anna on Monday.",
    "I've sent you the list above.",
    "I could send the email to Bob.",
    "I haven't sent the email.",
    "I have not deleted x.md.",
    "I've removed the second line from x.md.",
    "Deleted files can be brought back from the trash.",
    "Ich habe die E-Mail nicht geschickt.",
    "Soll ich die Datei löschen?",
    "Je n'ai pas envoyé le mail.",
    "No he enviado el correo.",
    "我没有发送邮件。",
)


@pytest.mark.parametrize(("sentence", "kind"), CLAIMS)
def test_a_deed_that_is_told_as_done_is_a_claim(sentence: str, kind: str) -> None:
    assert [claim.kind for claim in claims(sentence)] == [kind]


@pytest.mark.parametrize("sentence", NO_CLAIMS)
def test_what_is_not_told_as_done_is_no_claim(sentence: str) -> None:
    assert claims(sentence) == []


def test_a_long_answer_of_any_letters_is_looked_through_at_once() -> None:
    for piece in ("a", "é", "ich habe ", "我", "I've saved it to ", '"', "a/", "`", "已经"):
        assert len(claims(piece * 30_000)) < 2


# --- held against the ledger


def talk(root: Path, *exchanges: tuple[str, str | tuple[Say | str, ...]], tools: tuple[Tool, ...] = ()) -> House:
    """Messages with what the model answers to each; the house as it was at the end."""
    steps = [step for _, answer in exchanges for step in ((answer,) if isinstance(answer, str) else answer)]

    async def story() -> House:
        with ScriptedProvider(*steps) as model:
            async with house(root, model, tools=tools) as home:
                for said, _ in exchanges:
                    home.answers.append(await home.ask(said))
                assert_legal(home.history)
                return home

    return asyncio.run(story())


WRITES = call("write_file", {"path": "notes/bird.txt", "content": "pelican"})
FALSE = "I've saved it to notes/bird.txt."


def test_a_false_claim_is_mended_by_one_more_request(tmp_path: Path) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, WRITES, FALSE)))
    assert home.answers == [FALSE]
    assert (home.workspace / "notes/bird.txt").read_text() == "pelican"
    remark = home.history[3]
    assert isinstance(remark, UserMessage)
    assert remark.origin == "runtime"
    assert f"No file was written in this turn, but your answer says: “{FALSE}”" in remark.text


def test_a_false_claim_that_is_kept_up_is_corrected_by_a_line(tmp_path: Path) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, FALSE)))
    assert home.answers == [f"{FALSE}\n\n(Note from the program: no file was written in this turn.)"]
    last = home.history[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == FALSE


@pytest.mark.parametrize(
    "second",
    [
        "I really wrote notes/bird.txt.",
        "Yes, notes/bird.txt now contains pelican.",
        "Erledigt: notes/bird.txt ist geschrieben.",
        "You will find the pelican in `notes/bird.txt`.",
        "Oui, c'est bon.",
        "Done.",
        "好了",
    ],
)
def test_a_false_claim_is_corrected_in_whatever_words_it_is_kept_up(tmp_path: Path, second: str) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, second)))
    assert home.answers == [f"{second}\n\n(Note from the program: no file was written in this turn.)"]


@pytest.mark.parametrize(
    "second",
    [
        "Sorry.",
        "Yes, you are right: notes/bird.txt was not written.",
        "I cannot write notes/bird.txt.",
        "Shall I write notes/bird.txt now?",
        "Datei notes/bird.txt? Nein, die habe ich nicht geschrieben.",
        "Here is the word: pelican",
    ],
)
def test_what_takes_a_false_claim_back_is_left_as_it_is(tmp_path: Path, second: str) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, second)))
    assert home.answers == [second]


def test_a_claim_that_was_made_true_is_believed_in_whatever_words(tmp_path: Path) -> None:
    second = "Yes, notes/bird.txt now contains pelican."
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (FALSE, WRITES, second)))
    assert home.answers == [second]


def test_a_promise_to_remember_is_a_claim_only_where_something_was_to_be_noted(tmp_path: Path) -> None:
    answer, noting = "I'll remember that.", call("memory_add", {"text": "My name is Bob"})
    home = talk(
        tmp_path,
        ("remember my name is Bob", (answer, answer)),
        ("my cat is called Tim", answer),
        ("remember my name is Bob", (answer, noting, answer)),
    )
    assert home.answers == [f"{answer}\n\n(Note from the program: nothing was noted in this turn.)", answer, answer]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("I've noted that you are allergic to nuts.", "nothing was noted in this turn"),
        ("I've added it to MEMORY.md.", "nothing was noted in this turn"),
        ("I've set a reminder for 5 pm.", "no reminder was set in this turn"),
        ("Noted.", "nothing was noted in this turn"),
        ("I've added it to your calendar.", "no calendar was changed in this turn"),
        ("Done! The file notes/todo.md now contains your list.", "no file was written in this turn"),
    ],
)
def test_each_kind_of_claim_has_its_line(tmp_path: Path, answer: str, line: str) -> None:
    home = talk(tmp_path, ("remember that I am allergic to nuts and pick up Tim at 5", (answer, answer)))
    assert home.answers == [f"{answer}\n\n(Note from the program: {line}.)"]


def test_a_model_that_corrects_itself_is_believed(tmp_path: Path) -> None:
    home = talk(tmp_path, ("remind me at 5 pm", ("I've set a reminder.", "I cannot set reminders.")))
    assert home.answers == ["I cannot set reminders."]


def test_a_write_that_failed_founds_no_claim(tmp_path: Path) -> None:
    fails = call("write_file", {"path": "../bird.txt", "content": "pelican"})
    home = talk(tmp_path, ("write pelican to bird.txt", (fails, "I've saved it to bird.txt.", "Sorry, I could not.")))
    assert home.answers == ["Sorry, I could not."]


def test_a_note_founds_no_claim_of_a_reminder_but_a_job_does(tmp_path: Path) -> None:
    notes = call("memory_add", {"text": "Call the bank at 5 pm"})
    said = "I've set a reminder for 5 pm."
    home = talk(tmp_path / "1", ("remind me to call the bank at 5 pm", (notes, said, said)))
    assert home.answers[0].endswith("(Note from the program: no reminder was set in this turn.)")

    async def remind(text: str) -> str:
        """Some tool that is not known to the program."""
        return "ok"

    sets = call("remind", {"text": "bank"})
    home = talk(tmp_path / "2", ("remind me to call the bank", (sets, said)), tools=(tool(remind),))
    assert home.answers == [said]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Where is the bird?", "I saved it to notes/bird.txt."),
        ("And now tell me a joke about birds, please.", "I've saved that to notes/bird.txt. Here is a joke."),
        ("Did you save it?", "Yes, I saved it."),
        ("Thanks!", "You're welcome, I saved it."),
        ("And now tell me a joke about birds, please.", "I've already saved the file."),
    ],
)
def test_what_was_made_earlier_may_be_told_again(tmp_path: Path, said: str, answer: str) -> None:
    home = talk(tmp_path, ("write pelican to notes/bird.txt", (WRITES, FALSE)), (said, answer))
    assert home.answers == [FALSE, answer]


def test_a_file_that_lies_in_the_workspace_may_be_claimed(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/notes").mkdir()
    (tmp_path / "workspace/notes/bird.txt").write_text("pelican")
    assert talk(tmp_path, ("write pelican to notes/bird.txt", FALSE)).answers == [FALSE]


def test_a_note_that_is_there_may_be_claimed(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/MEMORY.md").write_text("- 2026-01-01: Allergic to nuts\n")
    answer = "I've noted that you are allergic to nuts."
    assert talk(tmp_path, ("remember that I am allergic to nuts", answer)).answers == [answer]


@pytest.mark.parametrize(
    "said", ["send Bob the figures by email", "Please email Bob the figures", "Schick Bob eine Mail"]
)
def test_a_mail_that_nothing_sent_is_corrected(tmp_path: Path, said: str) -> None:
    answer = "I sent the email to Bob."
    home = talk(tmp_path, (said, (answer, answer)))
    assert home.answers == [f"{answer}\n\n(Note from the program: nothing was sent in this turn.)"]


def test_a_letter_drafted_for_the_person_may_tell_of_a_mail(tmp_path: Path) -> None:
    answer = "Hi Anna,\nI sent the email to Bob.\nBest, Tim"
    for number, said in enumerate(("draft a note to Anna: I did send Bob the mail", "what should I answer Anna?")):
        assert talk(tmp_path / str(number), (said, answer)).answers == [answer]


def test_a_mail_that_some_tool_sent_may_be_claimed(tmp_path: Path) -> None:
    async def mail(to: str) -> str:
        """Some tool that is not known to the program."""
        return "ok"

    answer = "I sent the email to Bob."
    home = talk(tmp_path, ("send Bob an email", (call("mail", {"to": "Bob"}), answer)), tools=(tool(mail),))
    assert home.answers == [answer]


@pytest.mark.parametrize(
    "answer", ["File deleted: x.md", "I've deleted x.md.", "I deleted the file.", "MEMORY.md is deleted."]
)
def test_a_file_that_is_still_there_was_not_deleted(tmp_path: Path, answer: str) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/x.md").write_text("pelican")
    (tmp_path / "workspace/MEMORY.md").write_text("- pelican\n")
    home = talk(tmp_path, ("delete x.md", (answer, answer)))
    assert home.answers == [f"{answer}\n\n(Note from the program: no file was deleted in this turn.)"]


def test_a_file_that_is_gone_may_be_said_to_be_deleted(tmp_path: Path) -> None:
    answer = "x.md has been deleted."
    assert talk(tmp_path, ("where is x.md?", answer)).answers == [answer]


def test_noted_alone_is_a_claim_only_where_something_was_to_be_noted(tmp_path: Path) -> None:
    home = talk(
        tmp_path, ("from now on I have lunch at one", "Noted."), ("remember: lunch at one", ("Noted.", "Sorry."))
    )
    assert home.answers == ["Noted.", "Sorry."]


def test_where_jobs_can_be_made_only_one_that_was_made_founds_a_reminder(tmp_path: Path) -> None:
    said, sets = "I've set a reminder for 5 pm.", {"action": "add", "when": "today at 17:00", "text": "bank"}

    async def story() -> list[str]:
        steps = (
            *(call("cron", {**sets, "when": "yesterday-ish"}), said, said),
            *(call("cron", {"action": "list"}), said, said),
            *(call("cron", sets), said),
        )
        with ScriptedProvider(*steps) as model:
            async with house(tmp_path, model, waking={}) as home:
                answers = [await home.ask("remind me to call the bank at 5 pm") for _ in range(3)]
                assert len(home.jobs.all()) == 1
                return answers

    corrected = f"{said}\n\n(Note from the program: no reminder was set in this turn.)"
    assert asyncio.run(story()) == [corrected, corrected, said]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Did you set it?", "Yes, I've set the reminder for tomorrow at 9."),
        (
            "remind me tomorrow to call Anna about the flat",
            "I'll remind you tomorrow at 9 to call Anna about the flat.",
        ),
    ],
)
def test_a_reminder_that_the_person_set_may_be_claimed(tmp_path: Path, said: str, answer: str) -> None:
    async def story() -> None:
        with ScriptedProvider(answer) as model:
            async with house(tmp_path, model, waking={}) as home:
                await home.ask("/remind tomorrow at 9: call Anna about the flat")
                assert await home.ask(said) == answer

    asyncio.run(story())


def test_what_is_written_into_the_checklist_founds_a_reminder(tmp_path: Path) -> None:
    notes = call("append_file", {"path": "HEARTBEAT.md", "content": "- [ ] every Monday: water the plants\n"})
    said = "I've set a reminder for every Monday."
    assert talk(tmp_path, ("remind me on Mondays to water the plants", (notes, said))).answers == [said]


def test_a_promise_to_remind_is_a_claim_only_where_it_was_asked_for(tmp_path: Path) -> None:
    answer = "I'll remind you tomorrow at 9."
    home = talk(
        tmp_path, ("remind me tomorrow at 9 to call Anna", (answer, answer)), ("remind me what we said", answer)
    )
    assert home.answers == [f"{answer}\n\n(Note from the program: no reminder was set in this turn.)", answer]


def test_a_list_that_stands_in_the_answer_is_no_file(tmp_path: Path) -> None:
    answer = "I've added milk to your shopping list:\n- bread\n- milk"
    assert talk(tmp_path, ("put milk on the list of things to buy", answer)).answers == [answer]


# --- the line after a turn


def receipts(home: House) -> list[str]:
    return [event.text for _, event in home.channel.events if isinstance(event, Receipt)]


def test_a_turn_that_changed_something_is_followed_by_one_line(tmp_path: Path) -> None:
    calls = (
        ("write_file", {"path": "notes/bird.txt", "content": "pelican"}),
        ("memory_add", {"text": "There is a bird."}),
        ("write_file", {"path": "../x", "content": "x"}),
        ("read_file", {"path": "notes/bird.txt"}),
    )
    home = talk(tmp_path, ("go", (Say(calls=calls), "Done.")), ("and?", "Nothing more."))
    assert receipts(home) == ["wrote notes/bird.txt; noted 1"]


def test_in_a_chat_the_line_stands_below_the_answer_where_it_is_wanted(tmp_path: Path) -> None:
    async def story() -> None:
        with ScriptedProvider(WRITES, "Done.", "Nothing new.") as model:
            async with house(tmp_path, model, writes_receipts=lambda address: address.chat == "main") as home:
                assert await home.ask("write it") == "Done.\n\n· wrote notes/bird.txt"
                assert await home.ask("and now?") == "Nothing new."
                assert [one.text for one in home.history if isinstance(one, AssistantMessage)][1] == "Done."

    asyncio.run(story())


def test_many_files_are_counted(tmp_path: Path) -> None:
    calls = tuple(("append_file", {"path": f"{number}.txt", "content": "x"}) for number in (1, 2, 3, 4, 5, 6, 1))
    home = talk(tmp_path, ("go", (Say(calls=calls), "Done.")))
    assert receipts(home) == ["added to 1.txt; added to 2.txt; added to 3.txt; added to 4.txt; 2 more"]
