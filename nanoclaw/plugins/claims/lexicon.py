"""Words of requests and reports: what tools can do, by its kind, and what answers are made of.

A word ending in "-" stands for all that begin so. English ones are whole, as "add" also begins "address".
"""

from __future__ import annotations

from typing import NamedTuple


class WordSet(NamedTuple):
    """Whole words, and beginnings of words."""

    whole: frozenset[str]
    stems: tuple[str, ...]

    def has(self, word: str) -> bool:
        return word in self.whole or word.startswith(self.stems)


def words(text: str) -> WordSet:
    listed = text.split()
    stems = tuple(one[:-1] for one in listed if one.endswith("-"))
    return WordSet(frozenset(one for one in listed if not one.endswith("-")), stems)


ORDERS = {
    "run": words(
        "run execute rerun compile build deploy install restart reboot launch start test uninstall lauf- führ-"
        " ausführ- start-"
        " install- kompilier- lanc- exécut- redémarr- relanc- compil- ejecut- instal- reinici- corre correr lanza"
        " esegu- avvia"
        " lancia riavvia execut- rod- reinicia inicia запуст- установ- перезапуст- uruchom- zainstaluj voer draai"
        " herstart kör"
        " çalıştır-"
    ),
    "send": words(
        "send email mail text message forward ping notify dm tell reply post schick- send- verschick- schreib-"
        " benachrichtig-"
        " maile leite envoi- envoy- préviens prévenir préven- transfère transmet- dis écris manda mandar mande"
        " mandal- mánda-"
        " envi- avis- dile escríbe- reenví- invia inviar- inoltra avvisa scrivi avverti enviar envia mande"
        " отправ- напиши пришли"
        " скажи stuur wyślij napisz skicka gönder-"
    ),
    "remind": words(
        "remind wake alert snooze erinner- weck- rappel- réveill- recuérd- record- recuerd- despiért- despert- ricorda-"
        " ricordar- svegli- lembr- acord- напомн- разбуд- herinner wek przypomn- obudź påminn- hatırlat- uyandır-"
    ),
    "change": words(
        "add put set save store remember memorize note jot log record keep delete remove erase drop clear clean"
        " clean-up empty"
        " cancel rename move copy schedule book reserve order pay push commit pull download upload sync archive"
        " mark undo"
        " revert update edit replace append insert merge sort tidy organize backup enable disable mute unmute"
        " lock unlock"
        " subscribe unsubscribe shut close pause resume stop refactor implement fill track buy kill switch pin"
        " cross hide attach block order close open raise lower increase reduce reorder shorten tag assign"
        " extract unzip zip print apply patch watch monitor forget print"
        " rename füg- setz- tu trag- eintrag- speicher- merk- notier- lösch- entfern- streich- leg- anleg- stell-"
        " verschieb-"
        " kopier- benenn- umbenenn- nenne räum- aufräum- aktualisier- buch- bestell- bezahl- reservier-"
        " archivier- sperr-"
        " schalt- behalt- behalte sichere sichern änder- ersetz- pack- mach- erstell- absag- storn- drucke"
        " drucken nimm hinzufüg- vergiss"
        " ajout- rajout- mets mettre mettez not- retiens retenir supprim- efface- effacer enlèv- enlev- retir-"
        " annul- déplac-"
        " renomm- copi- enregistr- sauvegard- crée créer créez range ranger réserv- achèt- éteins éteindre allum-"
        " ferm- remplac-"
        " modifi- archiv- command- imprim- vid- souviens coche surveill- met programme programmer oublie"
        " añad- añád- agreg- agrég- pon ponlo ponla ponme poner borra- borrar bórra- elimin- elimín- quita- quít-"
        " guard- guárd-"
        " anot- anót- apunt- apúnt- mueve mover muév- renombr- cambi- cámbi- crea crear crea- cancel- reserv-"
        " resérv- actualiz-"
        " apag- apág- encien- reemplaz- archiv- cierra sube descarg- copia haz ordena vacía vigil- olvida"
        " aggiung- metti mettere mettilo salva salvar- elimin- cancell- rimuov- togli spost- rinomin- annot-"
        " segna segnati imposta"
        " prenot- sostitu- spegn- accend- aggiorn- memorizza sistema"
        " coloca colocar põe adicion- acrescent- salve apaga apagar apague exclu- remov- mova mover marca marque"
        " renomei- muda"
        " altera troca agenda agendar"
        " добав- удал- созда- запиш- запомни сохран- перемест- переимен- отмен- zet voeg verwijder- maak bewaar"
        " noteer onthoud"
        " verplaats hernoem annuleer dodaj usuń zapisz utwórz zapamiętaj przenieś lägg spara radera ekle sil"
        " kaydet oluştur"
    ),
}
"""First words of requests, by the kind of tool that fulfils them."""

UNCLEAR = words(
    "write make create change convert fix correct turn draft keep start text post shorten rewrite rephrase reword"
    " reply build test tell give set-up"
    " prepare replace sort print list"
    " schreib- mach- änder- erstell- nenne gib sag- pack- korrigier- écris crée créer fais corrige corrig- donne dis"
    " cambi- crea crear crea- haz escrib- escríb- dile di da scrivi scrivere fai correggi cria faz escreve muda"
    " maak напиши скажи napisz"
)
"""Those that ask for words, unless what they are done to is a thing."""

THINGS = words(
    "file files folder directory list lists todo todos calendar note notes reminder reminders alarm timer agent"
    " job task tasks event"
    " meeting appointment memory drafts branch repo backup server script service account heartbeat readme"
    " bug typo tests test"
    " suite linter migration docs code config settings light lights music trash downloads inbox shopping"
    " groceries title"
    " heading csv json intro section process wifi screenshots adapter item items priority changes app function"
    " program page port line sure project number password"
    " container site desktop database receipts invoices photos pictures contacts website"
    " datei- ordner- liste- einkaufs- kalender- notiz- wecker termin- erinnerung- backup- entwurf skript- dienst"
    " überschrift-"
    " licht server- tabelle- aufgabe- zettel-"
    " fichier- dossier- courses calendrier agenda rappel- réunion- sauvegarde- lumière- serveur- titre script- tâche-"
    " archivo- carpeta- lista- nota- calendario recordatorio- copia servidor título tarea- borrador- alarma- luz"
    " documento-"
    " elenco cartella promemoria appunti arquivo- pasta- ficheiro- lembrete- compras tarefa- arquivos teste- prueba-"
    " файл- папк- список заметк- bestand- map lijst plik- folder listę notatk-"
)
"""Things that tools change, or that stand for one."""

WORDS_WANTED = words(
    "say tell explain show read list summarize summarise sum gimme translate spell describe compare suggest recommend"
    " define name count"
    " calculate compute solve proofread answer reply respond speak talk sing draw invent"
    " imagine guess pick choose continue play act pretend recite compose wish think help teach complete repeat"
    " cheer look check"
    " search find call proofread paraphrase quote brainstorm analyze review discuss let's lets roleplay be don't never"
    " sag- erklär- zeig- lies vorles- übersetz- fass zusammenfass- buchstabier- beschreib- vergleich- empfiehl"
    " nenn rechne gib"
    " formulier- korrigier- kürz- antwort- sprich erzähl- dichte rate wähl- zähl- wiederhol- such- wünsch- hilf sei"
    " dis dites explique- montre- lis traduis tradui- résum- épelle décris compar- conseille- recommand- cite"
    " calcul- réponds"
    " répond- parle raconte- devine choisis reformul- corrige invente- chante donne- trouve répète sois souhaite"
    " di dime explica- muestra- enséña- lee léeme traduc- resum- deletre- describ- compara- recomiénd- nombra"
    " calcula- responde-"
    " habla cuent- cuént- adivina elige inventa canta dame busca reescrib- corrige repite desea- deséa-"
    " dimmi spiega- mostra- leggi traduci riassum- descriv- consiglia- rispondi parla racconta- indovina scegli"
    " calcola dammi"
    " diz diga conta explique mostre traduz- resuma descreva recomende responda fale me"
    " скажи расскажи объясни переведи покажи vertel leg vertaal powiedz przetłumacz wyjaśnij"
)
"""First words of requests that words fulfil."""

PAST = (
    r"(?:(?!(?:need|indeed|speed|feed|seed|agreed|exceed|interested|excited|pleased|surprised|limited|supposed"
    r"|allowed|based|called"
    r"|named|related|heard|liked|wanted|needed|noticed|realized|assumed|hoped|guessed|mentioned|tried|failed"
    r"|missed|enjoyed|asked"
    r"|looked|checked|used|searched|learned|loved|considered|suggested|explained|described|answered|helped"
    r"|wondered|united|talked"
    r"|listed|discussed|worried|confused|concerned|married|died|closed|tired|bored|learned|required|gesund|gern"
    r"|gerne|gegen|genug"
    r"|gelesen|gesehen|gefunden|gesucht|gedacht|gehört|verstanden|gefragt|gewesen|gestern|genau|gleich|gut|gerade"
    r"|gesagt|pensado"
    r"|visto|leído|buscado|encontrado|sido|estado|marido|partido|été|compris|lu|vu|cherché|trouvé|pensé|café|santé"
    r"|marché"
    r"|datei|partei|qué|letto|trovato|cercato|capito|visto|stato|stata|pensato|lido)$)"
    r"(?:\w{2,}(?:[^e]ed|eed)|set|sent|made|put|run|ran|built|done|told|kept|gone|written|wrote|taken|cut|begun"
    r"|hidden|paid|shut|reset"
    r"|split|gave|took|undone|rewrote|rewritten|drawn|hung|threw|thrown|bought|moved|let"
    r"|(?:\w{2,8})?ge\w{2,}(?:t|en)|(?:be|ver|ent|er|zer|über|unter|um|hinter|wider|[a-zä]{2,4}(?:ver"
    r"|be))\w{3,}(?:t|en|tet)|\w{3,}iert|umbenannt"
    r"|\w{2,}(?:é|ée|és|ées)|mise?s?|faite?s?|écrite?s?|retenue?s?|prévenue?s?|prévue?s?|éteinte?s?|ouverte?s?"
    r"|réussie?s?|redémarré"
    r"|\w{2,}(?:ado|ada|ados|adas|ido|ida|idos|idas)|(?:hech|puest|escrit|dich|abiert|resuelt|impres|feit)[oa]s?"
    r"|\w{2,}(?:ato|ata|uto|uta|ute|ito|ita)|fatt[oaie]|(?:im|com|ri)?mess[oaie]|scritt[oaie]|chius[oaie]"
    r"|aggiunt[oaie]|rimoss[oaie]"
    r"|corrett[oaie]|spent[oaie]|tolt[oaie]|dett[oaie]|(?:guard|añad|agregu|envi|mand|borr|apunt|cre|mov|ejecut"
    r"|anot|elimin|reserv|instal|cambi|quit|avis|actualic"
    r"|cancel|pus|renombr|copi)[éí]|\w{3,}ei|fiz|pus|hice|corrigi|inclui|\w{4,}(?:ал|ил|ел|ала|ила|ён|ен|ано|ены"
    r"|аны)|toegevoegd|verwijderd|ge\w+[dt]|\w+(?:łem|łam|ano|ane|iono|ione)"
    r"|\w+(?:ndi|ldi|ldı|ndı|dim|dım|tim|tım))$)"
)
"""Participles and past forms by which an answer says what it did, but for what needs no tool."""

LANGUAGE = (
    r"\b(?:synonym\w*|antonym\w*|opposite|participle|partizip|particip\w*|plural|tense|passive|rhymes?|synonyme"
    r"|antonyme|contraire"
    r"|sinónimo|contrario|significa|sinonimo|gegenteil|perfekt|präteritum|konjunktiv|passiv|passé composé"
    r"|imparfait|pretérito|passato"
    r"|subjuntivo|subjonctif|conjug\w+|konjug\w+|dit-on|se dice|si dice|se diz|(?:in|to|into) (?:english|german"
    r"|french|spanish|italian|chinese)"
    r"|(?:auf|ins) (?:deutsch|englisch\w*)|en (?:anglais|français|inglés|español)|al (?:inglés|español)"
    r"|in (?:inglese|italiano)|em português)\b"
    r"|意思|中文|英语|怎么说|日本語|英語|翻译|訳|過去形|敬語|丁寧語|同义词|反义词|回复|回答"
)
"""Talk about language: nothing else is asked for."""

TOPICS = (
    r"\b(?:word|phrase|meaning|means?|poem|haiku|joke|riddle|story|recipe|excuse|ideas?|mot|palabra|parola"
    r"|bedeute\w*|wort für|gedicht|witz"
    r"|histoire|poème|cuento|poema|from now on|ab jetzt|ab sofort|künftig|désormais|à partir de maintenant"
    r"|a partir de ahora|d'ora in poi"
    r"|de agora em diante|a partir de agora)\b|故事|笑话|讲|介绍|把这句话|从现在|これから|選んで|話をして|教えて"
)
"""Texts, and rules for the talk: wanted where no tool is asked for."""

REWORDS = (
    r"^\W*(?:please |pls |can you |could you |bitte )?(?:shorten|rewrite|rephrase|reword|paraphrase|correct|fix|order"
    r"|sort|arrange|alphabetize|convert|kürz\w*|ordne|sortier\w*|korrigier\w*|raccourci\w*|classe|trie|corrige|ordena"
    r"|acorta|riordina|accorcia|abbrevia|encurt\w*|reescrev\w*|reescrib\w*|riscriv\w*)\b[^:\n]*:\s*\S"
)
"""Asks for other words in place of those behind the colon."""

TEXTS = words(
    "sentence sentences grammar spelling text paragraph essay letter letters poem phrase word words answer story blank"
    " blanks vowels scene twist plot novel verse rhyme slogan quote quotation tone topic question difference"
    " recommendation order alphabetical equation satz grammatik"
    " brief phrase texte frase texto testo lettre carta mots ordre palabras parole ordine wörter reihenfolge"
)
"""Things that are words."""

QUESTION = (
    r"^\W*(?:who|whom|whose|what|when|where|why|how(?! about)|which|is|are|am|was|were|do(?! it| that| this| so)"
    r"|does|did|has|have you|should|wer|wem|wen|was"
    r"|wann|wo|warum|wieso|weshalb|wie|welche\w*|ist|sind|hast|hat|war|soll ich|qui|que|quel\w*|quand|où|pourquoi"
    r"|comment|combien|est-ce|as-tu"
    r"|avez-vous|quién\w*|qué|cuál\w*|cuándo|dónde|cómo|cuánt\w*|has|chi|cosa|quale|quando|dove|come|perché"
    r"|quant\w|hai|quem"
    r"|qual|onde|como|por que|кто|что|где|когда|почему|как|сколько|wat|waar|hoe|kto|co|gdzie|jak)\b(?:['’]s\b)?"
    r"|什么|谁|哪|怎么|多少|吗|誰|どこ|いつ|なぜ|ですか|ましたか"
)

FRAME = (
    r"\b(?:(?:can|could|would|will) (?:you|u|ya)|(?:need|want|like|love) you to|have you|you should|you (?:must"
    r"|have to|need to)|would you mind"
    r"|(?:what|how) about|don['’]?t forget to|make sure|be sure to|go ahead and|please|pls|plz|we should|let['’]?s"
    r"|i need|i want|i['’]d like|time to"
    r"|kannst|könntest|könnten sie|können sie|würdest|magst|sollst|(?:will|möchte|hätte gern|wünsche)\b.*\bdass"
    r"|bitte|ich (?:brauche|möchte|will|hätte)|denk dran"
    r"|peux-tu|pourrais-tu|pouvez-vous|pourriez-vous|tu (?:peux|pourrais)|vous pouvez|(?:voudrais|veux"
    r"|aimerais) que|il faut|merci de|n'oublie pas de|j'ai besoin"
    r"|(?:puedes|podrías|puede|podría)|(?:quiero|necesito|quisiera|gustaría) que|por favor|hay que|puoi|potresti"
    r"|vorrei che|voglio che|per favore|devi|bisogna"
    r"|podes|poderia|pode|você pode|quero que|preciso que|gostaria que|можешь|пожалуйста|kun je|kan je|możesz"
    r"|proszę)\b|(?:してください|お願い|して|してくれ|请|帮我)"
)
"""Forms of a request in which the verb may stand anywhere."""

COMPLETE = (
    r"(?:(?:okay|ok|sure(?: thing)?|great|perfect|alright|all right|yes|yep|of course|certainly|alles klar|klar"
    r"|gut|prima|super|ja|gerne?|d'accord|oui|bien sûr"
    r"|parfait|très bien|vale|sí|claro|perfecto|de acuerdo|va bene|certo|sì|perfetto|claro|sim|tudo bem|хорошо|да"
    r"|好的?)\W+)*"
    r"(?:(?:it(?:['’]s| is)|that(?:['’]s| is)|everything(?:['’]s| is)|consider (?:it|that)|all|and) )?(?:done"
    r"|all set|all done|finished|complete|completed|sorted|taken care of|will do|on it"
    r"|(?:ist |wird |alles |schon )*(?:erledigt|fertig|gemacht|geschafft)|mach(?:e)? ich|wird gemacht"
    r"|c['’]est (?:fait|bon|not[ée]|parti|réglé|enregistré|prêt)|(?:voilà|tout est|bien) (?:c['’]est )?(?:fait"
    r"|prêt|noté)"
    r"|fait|ce sera fait|listo|hecho|ya está|todo listo|queda hecho|fatto|ecco fatto|(?:è )?tutto fatto|feito"
    r"|pronto|está feito|готово|сделано|gedaan|klaar|gotowe|zrobione|tamam|yapıldı|klart)"
    r"(?=\W|$)|^\W*(?:好了|好的[。!！]?$|搞定|完成|办好|完了|できました|[^不没]{0,6}了[。!！]?$|[✅✔☑👍👌])"
)
"""The beginning of an answer that says no more than that it was done."""

FIRST = (
    r"\bi(?:['’]ve)?\b|\bhab(?:e)?\b|\bj['’]ai\b|\bje (?:l|t|vous l)['’]?(?:es )?ai\b|\bje (?:les|vous|le) ai\b"
    r"|\bhe (?:\w+(?:ado|ido)|hecho|puesto|escrito|dicho|abierto|impreso)\b|\bhemos\b|\b(?:l['’])?ho\b|\bfiz\b"
    r"|\bheb\b|\btenho\b"
    r"|(?<!\ba )(?<!\bont )(?<!\best )(?<!\bété )\b(?!qué|porqué|té\b|café|así|aquí|allí|ahí|datei"
    r"|partei)\w{3,}(?:é|í|ei)\b|\b\w{2,}(?:łem|łam|dim|dım|tim|tım)\b|\b\w+(?:ал|ил|ала|ила)\b"
    r"|\bsono\b.*\bda me\b|我(?!会).*了|已|(?:し|り|き|み)ました"
)
"""The first person has done it: a pronoun, or a form that has the person in it."""

PROMISE = (
    r"\b(?:i(?:['’]ll| will|['’]m going to| won['’]t)|i(?:['’]m| am)(?: now)? (?:\w+ing)|you(?:['’]ll"
    r"| will) (?:hear|get|be)|ich werde|ich (?:behalte|melde|kümmere)|ich \w+e (?:dich|dir|mir|mich|es)"
    r"|\w+e ich(?: mir| dir)?|je (?:le |la |vous |te |t['’]|m['’]en |m['’])*\w+(?:rai|e)|compte sur moi"
    r"|comptez sur moi"
    r"|\w{4,}(?:aré|eré|iré|aremos|erò|irò)|te lo \w+|te \w+o|cuenta con\w*|me encargo|me ocupo|ci penso io"
    r"|conta su di me|vou|\w{4,}(?:arei|erei|irei)|lembro-te|aviso-te|deixa comigo|напомню|сделаю|ik \w+|przypomnę"
    r"|zrobię|jag ska|hatırlatacağım)\b"
    r"|会.{0,12}(?:提醒|通知|记|叫|告诉)|我会|(?:知らせ|リマインド|覚えて|お|し)(?:します|ておきます|きます)"
)
"""The first person will do it."""

KEEPS = (
    r"\b(?:remind|ping|notify|alert|wake|remember|keep (?:that|it|this|an eye|you|in mind|track)|note|watch"
    r"|monitor|track|let (?:you|\w+) know|send|book|save|add|delete|erinner\w*|weck\w*|merk\w*|behalt\w*|meld\w*"
    r"|rappeller\w*|"
    r"souvien\w*|préviendr\w*|recordar\w*|avisar\w*|despertar\w*|ricorder\w*|avviser\w*|lembr\w*)\b|提醒|通知|记住|リマインド"
    r"|知らせ|覚えて"
)
"""Promises that only a tool keeps."""

STATE = (
    r"\b(?:is|are|was|were|has been|have been|been|now|has|liegt|['’]s|['’]re|knows|ist|sind|wurden?|steht|stehen"
    r"|klingelt|kommt|lautet|heißt|läuft|jetzt|weiß|est|sont|été|está|están|sido|queda|quedó|se ha|è|sono"
    r"|stat[oaie]|foi|foram)\b"
    r"|\bse \w+(?:ó|aron|ieron)\b|已|ました|います|成功"
)
"""A thing is in a state, or was brought into it."""

RESULT = (
    r"\b(?:pass|passes|passed|passing|green|succeeded|successful\w*|no (?:\w+ )?errors|without (?:any )?(?:errors"
    r"|warnings)|compiles|works|clean(?:ly)?|bestanden|grün|ohne fehler|fehlerfrei|durchgelaufen"
    r"|passent|passés?|réussis?|sans erreur|pasan|pasaron|pasado|pasó|sin (?:problemas|errores)|passano|passati"
    r"|passaram|superat\w)\b|通过|成功|\d+/\d+ ok"
)
"""Results of a run."""

NEGATED = (
    r"\b(?:can['’]?t|cannot|could not|couldn['’]t|can not|unable|not|nothing|nobody|never|(?<!ya )no(?! \S+\.\w"
    r"| longer\b| problem| worries| errors?\b| lint| warnings)|sorry|afraid|unfortunately|don['’]t|doesn['’]t"
    r"|didn['’]t|isn['’]t|wasn['’]t|aren['’]t|haven['’]t"
    r"|hasn['’]t|won['’]t be able|wouldn['’]t|(?<!0 )failed|kein\w*(?! problem)|nicht(?! mehr)|nichts|leider|kann"
    r"|fehlt|fehlgeschlagen|ne|n['’]\w+|pas(?! de (?:souci|problème))|aucune?|rien|impossible|désolée?|nein|non"
    r"|(?<!ya )no (?:puedo|encuentro|tengo"
    r"|hay|ha|he|se|pude|existe|fue|me|está)|ning[uú]n\w*|nada|siento|todavía no|nessun\w*|não|nenhum\w*|niet|geen"
    r"|nie|не|нет|değil|yok|trouble|problem with)\b|不(?!客气)|没(?!问题)|无法|抱歉|ません|申し訳|できな"
)

DEFERRED = (
    r"\b(?:can|could|would|should|may|might|(?:if|once|when) (?:you|i)|before|tell me|let me know(?! if)"
    r"|need (?:to know|a|the|your|more)|which|please (?:tell|give|say|paste|send|specify)|here(?:['’]s| is| are)"
    r"|you can|how to|try"
    r"|(?:wenn|falls|sobald) (?:du|sie|ich)|welche\w*|sag mir|brauche|soll|könnte|hier ist|si tu|si vous|dis-moi"
    r"|dites-moi|quel\w*|voici|pourrais|dois-je|dime|si (?:me|quieres)|cuál|necesito saber|aquí|puedo|podría|dimmi"
    r"|quale|ecco (?!fatto)|posso|diga-me|qual)\b|请告诉|哪|如果|可以|教えて"
)
"""It could be done, or something has to be known first."""
