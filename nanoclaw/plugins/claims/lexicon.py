"""Forms of words by which an answer says that something was done, and a request that words are all it wants.

What a language has in common with others is its grammar: a perfect in the first person, a passive, a participle alone.
"""

from __future__ import annotations

_EN = (
    r"(?!(?:agreed|indeed|need|speed|feed|seed|bed|red|interested|excited|pleased|surprised|limited|supposed"
    r"|allowed)\b)"
    r"(?:\w{2,}ed|set|sent|made|put|run|built|done|told|kept|gone|written|taken|cut|begun|hidden|paid|shut|reset)"
)
_DE = r"(?:\w*ge\w{2,}(?:t|en)|\w{2,}iert|(?:\w*(?:be|ver|ent|er|zer|über|unter))\w{3,}(?:t|en|tet))"
_FR = (
    r"(?:\w{2,}(?:é|ée|és|ées)|mise?s?|faite?s?|écrite?s?|prise?s?|parti|réussie?s?|démis|suivie?s?|\w{2,}(?:eint"
    r"|ert|uit|aint)e?s?)"
)
_ES = r"(?:\w{2,}(?:ado|ada|ados|adas|ido|ida|idos|idas)|(?:hech|puest|escrit|dich|abiert|resuelt)[oa]s?)"
_IT = (
    r"(?:\w{2,}(?:ato|ata|ati|ate|uto|uta|uti|ute|ito|ita|iti|ite)|fatt[oaie]|mess[oaie]|scritt[oaie]"
    r"|(?:pre|chiu)s[oaie]|(?:aggiun|tol|aper|det|rimos)[st]?t[oaie])"
)
_OK = r"(?:ok(?:ay)?|sure|great|all right|alright|alles klar|voilà|vale|listo|va bene|perfect|of course)"

PERFECT = (
    rf"\bI(?:['’]ve| have)?(?: (?:now|just|already|also|gone ahead and|\w+ly))* (?!(?:heard|liked|wanted|needed|noticed"
    rf"|realized|assumed|hoped|guessed|mentioned|tried|failed|missed|enjoyed|asked|looked(?!.* and )|checked"
    rf"|used)\b){_EN}\b"
    rf"|\bI ran\b|^ran it\b|\bI wrote\b|\bI(?:['’]ve)? let \w+ know"
    rf"|\b(?:ich habe?|habe? ich)\b.*\b(?:{_DE}|bescheid \w+)\b"
    rf"|\bj['’]ai (?:bien |tout |déjà )*{_FR}\b|\bje l['’]ai\b"
    rf"|\b(?:he|ya lo he|hemos) {_ES}\b|\b(?:guard|añad|envi|borr|apunt|cre|mov|ejecut|anot|elimin|reserv|instal)[éí]\b"
    rf"|\bho (?:già )?{_IT}\b|\b(?:execut|adicion|apagu|envi|guard|cri|instal|marqu|reserv|anot)ei\b|\bfiz\b"
)
"""The first person says what it did."""

PROMISE = (
    r"\bI(?:['’]ll| will|['’]m going to|['’]ve got to| won['’]t|['’]m)(?: be)?(?: \w+ly| now)* (?:remind|ping|notif"
    r"|alert"
    r"|wake|tell you|let you|let \w+ know|remember|keep (?:that|it|this|an eye|you|in mind|track)|note|watch(?!ing tv)"
    r"|monitor|track|send|book|get back)\w*|\bconsider it done\b|\bwill do\b|\bon it[.!]|\bleave it to me\b"
    r"|\bich (?:werde dich|erinnere|wecke|melde mich|behalte|sage? dir|gebe? dir)\b|\bmerke? ich mir\b|\bmach[e]? ich\b"
    r"|\bwird gemacht\b|\bkommt eine erinnerung\b"
    r"|\b(?:rappellerai|souviendrai|préviendrai|avertirai|réveillerai|retiendrai)\b|\bje (?:le |la |vous "
    r"|te )?(?:surveille"
    r"|note|retiens)\b|\bau courant\b|\bje m['’]en (?:occupe|charge)\b|\bce sera fait\b"
    r"|\b(?:recordaré|avisaré|avisaremos|despertaré|te aviso|lo tendré|vigilo|vigilando|lo recordaré|me encargo)\b"
    r"|\b(?:ricorderò|avviserò|sveglierò|lo terrò|me ne occupo)\b|\b(?:lembro-te|aviso-te|vou (?:te )?(?:lembrar"
    r"|avisar))"
    r"|会提醒|会记住|会通知|お知らせします|リマインドします|覚えておきます"
)
"""The first person says that something will come up by itself, or is remembered."""

PASSIVE = (
    rf"(?:\b(?:has|have|is|are|was|were|been|now)|['’](?:s|re)|\ball) (?:(?:now|already|all|been|being|\w+ly) )*"
    rf"(?:{_EN}|ready|complete|finished|in place|in your|on your|on for|up and running|running|gone|off|empty|higher"
    rf"|lower)\b"
    rf"|\bnow (?:\w+s|in|on|has|under)\b"
    rf"|\b(?:ist|sind|wurden?|wird|steht|stehen|klingelt|läuft|laufen|weiß|ging)\b.*\b(?:{_DE}|jetzt|um \d|fertig"
    rf"|raus|drauf|unterwegs"
    rf"|drin|wieder|bescheid|grün|durch)\b"
    rf"|\b(?:est|sont|a été|ont été|sera|a|ont|passent)\b (?:(?:bien|déjà|maintenant|tout|toute?s?|désormais) )*{_FR}\b"
    rf"|\best (?:terminée?|prête?|en place)\b"
    rf"|\b(?:está|están|ha sido|han sido|ha|han|fue|fueron|queda|quedan|se ha|se han)\b (?:(?:ya|bien|ahora) )*(?:{_ES}"
    rf"|list[oa]s?|en (?:el|la|tu))\b|\bse \w+[óo] \b|\bse \w+aron\b|\bya en\b|\bya está"
    rf"|\b(?:è|sono|è stat\w|sono stat\w) (?:già |ora )*{_IT}\b|\b(?:foi|está|fica) (?:já )?\w+(?:ado|ada|ido|ida)\b"
)

ALONE = (
    rf"^\W*(?:{_OK}\W+)?(?:\w+ly )?{_EN}\b|\b{_EN}\W*$"
    rf"|^\W*(?:{_OK}\W+)?(?:{_DE})\W*$|\b(?:gelöscht|gespeichert|notiert|erledigt|gemacht|fertig|verschickt)\W*$"
    rf"|\b{_FR}(?: sur [^.]*| pour [^.]*)?\W*$|^\W*{_FR}\b|\b{_ES}(?: a [^.]*| en [^.]*)?\W*$|^\W*{_ES}\b"
    rf"|\b{_IT}(?: per [^.]*| nel[^.]*)?\W*$|^\W*{_IT}\b|\b(?:complete|ready|all set|terminée?|réussie|feito|done)\b"
)
"""A participle alone, or at an end, as in short reports."""

RESULT = (
    r"\b(?:pass|passes|passed|passing|green|succeeded|no (?:\w+ )?errors|without (?:any )?errors|compiles|works"
    r"|clean(?:ly)?"
    r"|bestanden|grün|ohne fehler|fehlerfrei|läuft .*durch|passent|réussis?|sans erreur|pasan|pasaron|pasado"
    r"|sin (?:problemas"
    r"|errores)|passano|passaram|superat\w)\b|通过|成功"
)
"""Results of a run."""

CJK_DONE = r"已|好了|完成|成功|加上了|[^不没]了[。！!]?$|(?:し|き|み|り)ました|完了"

NEGATED = (
    r"\b(?:can['’]?t|cannot|couldn['’]t|can not|unable|no way|not|nothing|never|sorry|don['’]t|doesn['’]t|didn['’]t"
    r"|isn['’]t"
    r"|aren['’]t|haven['’]t|hasn['’]t|there (?:is|are) no|have no|finde|kein\w*|nicht|nichts|leider|kann|fehlt|ne"
    r"|n['’]\w+"
    r"|pas|aucune?|rien|impossible|désolée?|no (?:puedo|encuentro|tengo|hay|ha|he|se)|ning[uú]n\w*|nada|siento|non"
    r"|nessun\w*"
    r"|não|nenhum\w*)\b|不能|没有|没找到|无法|抱歉|できません|ありません|申し訳"
)

TEXT_WORK = (
    r"^\W*(?:(?:please|now|and|can you|could you|bitte|kannst du|por favor|puedes|peux-tu|merci de)\b\W*)*"
    r"(?:re(?:write|phrase|word)|correct (?:my|this|the sentence)|proofread|shorten|make (?:this|it"
    r"|that) (?!so\b)\w+er\b|give me"
    r"|suggest|explain|compare|describe|list \w+ (?!to\b)|summari[sz]e|translat|convert \d|turn ['\"“‘]|spell|pick"
    r"|choose|guess"
    r"|recommend|write (?:me )?(?:an?|one|two|three) (?!note\b|file\b)|continue|finish the|act as|play|let['’]?s"
    r"|imagine|define"
    r"|name|count|add \d|calculate|compute|solve|tell me|show|read|recite|look|sing|invent|draw|check|say|wish|cheer"
    r"|compose|answer|be |respond|speak|call me"
    r"|never|don['’]t"
    r"|do not|stop saying|think|help me|show me how|thank|thanks|thx|hello|hi|good (?:morning|night|evening)|bye"
    r"|formulier|korrigier|kürz|gib mir|erklär|vergleich|beschreib|fass|übersetz|buchstabier|wähl|rate|empfiehl|nenn"
    r"|zähl|rechne"
    r"|schreib(?:e)? mir (?:ein|zwei|drei)|sag (?:mir|was|etwas)|erzähl|wünsch|antworte|sprich|sei |nie|zeig|lies"
    r"|erfinde|danke|vielen dank|hallo"
    r"|gute[ns]? |tschüss"
    r"|reformul|corrige (?:ma|cette)|explique|compar|décri[st]|résume|tradui|épelle|choisi|devine|conseille"
    r"|recommande|cite|nomme"
    r"|compte |calcule|écri[st](?:-moi)? une?|dis|raconte|souhaite|réponds|parle|sois |ne |montre|lis|invente|merci"
    r"|bonjour|bonne "
    r"|bonsoir|salut"
    r"|escribe de forma|escríbe(?:me)? un|reescrib|corrige (?:mi|esta)|explica|compara|describ|resum|traduc|deletrea"
    r"|elige|adivina"
    r"|recomiénda|nombra|cuenta|cuénta|suma|calcula|di\b|dime|desea|deséa|enséña|enséñame|lee|léeme|inventa|responde"
    r"|habla|sé |haz una rima|gracias"
    r"|hola|buen[oa]s"
    r"|scegli|spiega|riassum|dimmi|racconta|consiglia|traduci|indovina|grazie|ciao|escolh|explica|diz|conta|obrigad|olá"
    r"|скажи|расскажи|переведи|спасибо|привет|bedankt|dzięk|tack|teşekkür)"
    r"|^\W*把这句话|谢|你好|再见|晚安|ありがとう|こんにちは|翻译|讲|说(?!会议)|訳|を選んで|介绍|話をして"
)
"""Requests that words fulfil, greetings and thanks."""

STATEMENT = (
    r"^\W*(?:I(?:['’](?:m|ve|d|ll))?|my|we(?:['’]re)?|our|it(?:['’]s)?|that(?:['’]s)?|this|there|no|yes|ok|okay|nope"
    r"|great|the \w+ (?:is|are"
    r"|was|were)|ich|mein\w*|wir|das|nein|ja|bin|j['’]ai|je|mon|ma|c['’]est|non|oui|he|mi|me voy|yo|no,|sí|ho|io"
    r"|il mio|eu|meu)\b"
    r"|^我|^今日は|^今天"
)
"""Somebody tells something, and asks for nothing."""

POLITE = (
    r"^\W*(?:(?:please|hey|bitte)\W+)?(?:can|could|would|will) you\b|^\W*(?:kannst|könntest|würdest) du\b"
    r"|^\W*(?:peux-tu|pourrais-tu|pouvez-vous|pourriez-vous|tu peux)\b|^\W*¿?(?:puedes|podrías|puede)\b"
    r"|^\W*(?:puoi|potresti|podes|pode|poderia)\b"
)
"""A request in the form of a question."""

RUN = (
    r"\b(?:run|execute|compile|build|deploy|install|lint|pytest|tests?|restart|lauf\w*|ausführ\w*|führe?|starte"
    r"|installier\w*"
    r"|lance[rz]?|exécute[rz]?|redémarre|installe|ejecut\w+|instala|reinicia|esegui|executa)\b|运行|実行"
)
SEND = (
    r"^\W*(?:please |bitte )?(?:send|e?mail|text|message|forward|tell \w+ (?:that|over)|let \w+ know|schick\w*|sende"
    r"|schreib \w+,"
    r"|sag \w+,|envoie|préviens|écris à|manda|envía|avisa|invia)\b"
)

COMMON = (
    r"\b(?:the|is|are|your|you|i|it|a|to|my|please|der|die|das|den|ist|ich|dein\w*|und|bitte|le|la|les|est|une?|votre"
    r"|ton|ma|mon|el"
    r"|los|las|está|una|tu|por|il|di|per|che)\b"
)
"""Words of the languages that the forms above are of."""
