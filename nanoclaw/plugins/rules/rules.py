"""What a standing rule in plain words forbids: a tool, a command or a file, and that without conditions.

Every word of such a rule must be understood; a rule with others is none that code can hold anyone to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from nanoclaw.shell_words import commands_in


@dataclass(frozen=True, slots=True)
class Ban:
    """What one rule forbids. A path is forbidden to change, or with True also to read. `hint` says why nothing is."""

    tools: tuple[str, ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    paths: tuple[tuple[str, bool], ...] = ()
    hint: str = ""

    def __bool__(self) -> bool:
        return bool(self.tools or self.commands or self.paths)


@lru_cache(maxsize=256)
def ban_of(rule: str, tools: frozenset[str]) -> Ban:
    """What a rule forbids, in English, German, French, Spanish or Chinese words."""
    quoted: list[str] = []

    def keep(match: re.Match[str]) -> str:
        quoted.append(next(group for group in match.groups() if group is not None).strip())
        return f" \ue000{len(quoted) - 1}\ue001 "

    text = _QUOTED.sub(keep, rule.replace("’", "'").replace("‘", "'"))
    bans = [_sentence(sentence, quoted, tools) for sentence in _SENTENCES.split(text)]
    hint = next((ban.hint for ban in bans if ban.hint), "")
    whole = Ban(
        tuple(dict.fromkeys(tool for ban in bans for tool in ban.tools)),
        tuple(dict.fromkeys(command for ban in bans for command in ban.commands)),
        tuple(dict.fromkeys(path for ban in bans for path in ban.paths)),
    )
    return whole if whole else Ban(hint=hint)


_QUOTED = re.compile(
    r"`([^`]+)`|\"([^\"]+)\"|“([^“”]+)”|„([^“”„]+)[“”]|«([^«»]+)»|「([^「」]+)」|(?<![^\W_])'([^']+)'(?![^\W_])"
)
_SENTENCES = re.compile(r"(?:[.!?;]+(?=\s|$)|[。！？；\n])\s*")
_CLAUSES = re.compile(
    r"[,，:：()—–]|(?<![^\W])(?:but|sondern|aber|mais|sino|pero|instead)(?![^\W])|而是|但是|但", re.IGNORECASE
)
_REASON = re.compile(
    r"(?<![^\W])(?:because|since|as it|weil|denn|damit|car|parce|puisque|porque|ya que)(?![^\W]).*|"
    r"(?:因为|因為|以免).*",
    re.IGNORECASE | re.DOTALL,
)
_PHRASES = re.compile(
    r"(?<![^\W])(?:at all|for any reason|for anything|no matter what|under any circumstances?|by yourself|on your own|"
    r"(?:on|in|from|with) (?:this|my|the|our) (?:machine|computer|laptop|system|server|workspace|project|folder|chat)|"
    r"any ?more|any longer|from now on|even if i (?:ask|tell|say).*|to(?= (?:use|run|execute|call|invoke|start))|"
    r"auf diesem (?:rechner|computer)|s'il (?:te|vous) pla[iî]t|du tout|sous prétexte|por favor|en absoluto|"
    r"bajo circunstancia)(?![^\W])",
    re.IGNORECASE,
)
_NEGATING_PHRASES = re.compile(
    r"(?<![^\W])(?:under no circumstances?|auf keinen fall|unter keinen umständen|en aucun cas|sous aucun prétexte|"
    r"bajo ninguna circunstancia|off[ -]limits|do not|must not|may not|should not|are not allowed to|not allowed)"
    r"(?![^\W])",
    re.IGNORECASE,
)
_TOKENS = re.compile(r"\ue000(\d+)\ue001|([\u3400-\u9fff]+)|([^\s\u3400-\u9fff\u3000-\u303f\ue000\ue001]+)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEGATIONS = _words(
    "never not don't dont no nor neither mustn't cannot can't shouldn't won't forbidden prohibited banned stop "
    "nie niemals nicht kein keine keinen keinerlei verboten untersagt "
    "jamais pas aucun aucune interdit interdite interdiction défense "
    "nunca jamás jamas prohibido prohibida ningún ninguna "
    "不要 别 別 勿 切勿 请勿 不准 不许 不得 不能 不可 不可以 禁止 严禁 嚴禁 永远不要 永遠不要 绝不 决不 "
    "绝对不要 不应 不应该 不"
)
_USING = _words(
    "use using used run running execute executing executed call calling called invoke invoking launch launching start "
    "benutze benutzen benutzt verwende verwenden verwendet nutze nutzen genutzt führe führen ausführen ausgeführt aus "
    "rufe rufen auf aufrufen aufgerufen starte starten gestartet "
    "utilise utiliser utilisez utilisé lance lancer lancez exécute exécuter exécutez exécuté appelle appeler emploie "
    "employer uses usar usa usado utilices utilizar utilice utiliza ejecutes ejecutar ejecute ejecuta ejecutado corras "
    "correr llames llamar lances lanzar invoques emplees hagas 使用 运行 運行 执行 執行 调用 調用 用 跑 启动 啟動"
)
_CHANGING = _words(
    "write writing edit editing change changing modify modifying overwrite append delete deleting remove "
    "schreibe schreiben ändere ändern bearbeite bearbeiten überschreibe überschreiben lösche löschen "
    "écris écrire écrivez modifie modifier modifiez supprime supprimer efface effacer "
    "escribas escribir modifiques modificar edites editar borres borrar elimines eliminar "
    "写 写入 寫入 修改 编辑 編輯 删除 刪除 更改 覆盖"
)
_READING = _words(
    "touch touching read reading open opening look access lies lesen öffne öffnen anfassen fasse an lis lire lisez "
    "ouvre ouvrir touche toucher leas leer abras abrir toques tocar 读 读取 讀取 打开 打開 看 查看 碰 动 访问"
)
_PLAIN = _words(
    "a an the any tool tools command commands program ever again please kindly you must should may can do does to into "
    "is are be been allowed permitted want like i it this that yourself also and or either both just simply always "
    "here me your of "
    "das den die dem der ein eine einen tool tools werkzeug befehl kommando programm datei bitte du sollst darfst darf "
    "dürfen soll werden wird ist sind mehr wieder und oder noch jemals je überhaupt hier auch es mir zu in "
    "le la les un une l d de du des outil commande programme fichier tu vous dois devez doit ne n il est et ou ni plus "
    "ici être svp dans à "
    "el los las una herramienta comando orden programa archivo debes debe puedes puede se y o ni más aquí es está lo "
    "que en file files folder ordner dossier carpeta "
    "工具 命令 指令 程序 文件 你 请 再 这个 那个 任何 的 了 来 去 被 是 和 或 或者 以及 与 也 一定 绝对 永远 永遠 务必 "
    "在这里 到 对 往 里 中"
)
_CONDITIONS = _words(
    "unless except excepting without until till before after when while if "
    "außer ausser ohne bis bevor wenn falls sofern sauf sans excepté hormis avant si quand lorsque "
    "salvo excepto sin hasta antes cuando 除非 除了 如果 若 直到 之前 以前 没有 未经 時 时"
)
_ONLY = _words("only nur seulement solo sólo 只 仅 才")
"""Words that narrow the clause they stand in and those after it, not the ones before."""
_CHINESE = sorted(
    {
        word
        for group in (_NEGATIONS, _USING, _CHANGING, _READING, _PLAIN, _CONDITIONS, _ONLY)
        for word in group
        if "\u3400" <= word[0] <= "\u9fff"
    },
    key=len,
    reverse=True,
)
_OBVIOUS = _words(
    "git rm rmdir mv cp chmod chown sudo doas su dd mkfs fdisk shutdown reboot poweroff halt curl wget ssh scp rsync "
    "ftp sftp nc telnet npm npx yarn pnpm pip pip3 pipx uv python python3 node ruby perl php bash sh zsh docker podman "
    "kubectl helm terraform ansible systemctl apt apt-get dnf yum pacman brew cargo gcc pkill killall crontab "
    "iptables ufw mount umount tar unzip gh glab aws gcloud az psql mysql sqlite3 redis-cli ffmpeg sed awk grep xargs "
    "tmux vim nano"
)
"""Programs whose names are no other words."""
_ORDINARY = _words(
    "make find cat kill open test time watch cut sort head tail more less screen go ls ps echo date at snap service "
    "eval touch truncate shred format diskutil launchctl ln tee chsh passwd useradd userdel"
)
"""Programs whose names are ordinary words, too: only what is run or used is one of them."""
_SCRIPT = re.compile(r"\.{0,2}/\S+|\S+\.(?:sh|py|rb|pl|js|exe|bat)")
_PATH = re.compile(r"(?:[\w.~-]+/)+[\w.-]*|[\w-]+\.[A-Za-z]\w{0,7}")
_ARGUMENT = re.compile(r"[\w./:=@+~%*-]+")


@dataclass(slots=True)
class _Clause:
    """What was understood of a clause; `rest` are the words that were not."""

    is_negated: bool = False
    is_using: bool = False
    is_changing: bool = False
    is_reading: bool = False
    tools: list[str] = field(default_factory=list)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)

    @property
    def has_things(self) -> bool:
        return bool(self.tools or self.commands or self.paths)


def _sentence(text: str, quoted: Sequence[str], tools: frozenset[str]) -> Ban:
    tidy = _NEGATING_PHRASES.sub(" never ", _PHRASES.sub(" ", _REASON.sub(" ", text)))
    found, hint, condition, is_open, names_things = list[Ban](), "", "", False, False
    for part in _CLAUSES.split(tidy):
        tokens = list(_tokens(part, quoted))
        condition = condition or _condition(tokens)
        clause = _clause(tokens, tools)
        is_list = is_open and clause.has_things and not (clause.is_using or clause.is_changing or clause.is_reading)
        negated = clause.is_negated or is_list
        if (only := _only(tokens)) and (negated or found):
            condition = condition or only
        is_open = negated and not clause.rest
        names_things = names_things or (negated and clause.has_things)
        if negated and clause.has_things and not clause.rest:
            found.append(_ban(clause))
        elif negated and (clause.has_things or any(is_quoted for _, is_quoted in tokens)):
            hint = f"code does not understand “{' '.join(clause.rest)[:60]}”, but “never run `command`” it can enforce"
    if not found or condition:
        return Ban(hint=f"“{condition}” is a condition that code cannot judge" if condition and names_things else hint)
    return Ban(
        tuple(tool for ban in found for tool in ban.tools),
        tuple(command for ban in found for command in ban.commands),
        tuple(path for ban in found for path in ban.paths),
    )


def _condition(tokens: Sequence[tuple[str, bool]]) -> str:
    return next((word for word, is_quoted in tokens if not is_quoted and word.casefold() in _CONDITIONS), "")


def _only(tokens: Sequence[tuple[str, bool]]) -> str:
    return next((word for word, is_quoted in tokens if not is_quoted and word.casefold() in _ONLY), "")


def _ban(clause: _Clause) -> Ban:
    paths = tuple((path, clause.is_reading) for path in clause.paths)
    return Ban(tuple(clause.tools), tuple(clause.commands), paths)


def _tokens(text: str, quoted: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Words, and with True what stood in quotes."""
    for number, chinese, word in (match.groups() for match in _TOKENS.finditer(text)):
        if number is not None:
            yield quoted[int(number)], True
        elif chinese is not None:
            yield from ((piece, False) for piece in _chinese(chinese))
        else:
            bare = word.strip("¡¿!?.\"'…*_") if not word.startswith((".", "/")) else word.rstrip("!?.\"'…")
            elided = re.fullmatch(r"((?:[nldjsmt]|qu)')(.+)", bare, re.IGNORECASE)
            if elided and bare.casefold() not in _NEGATIONS:
                yield elided[1].rstrip("'"), False
                bare = elided[2]
            if bare:
                yield bare, False


def _chinese(run: str) -> Iterator[str]:
    """Cut into the words that are known, the longest first."""
    position = 0
    while position < len(run):
        word = next((word for word in _CHINESE if run.startswith(word, position)), run[position])
        yield word
        position += len(word)


def _clause(tokens: Sequence[tuple[str, bool]], tools: frozenset[str]) -> _Clause:
    clause = _Clause()
    is_about_files = any(not is_quoted and word.casefold() in _CHANGING | _READING for word, is_quoted in tokens)
    names = {name.casefold(): name for name in tools}
    position = 0
    while position < len(tokens):
        word, is_quoted = tokens[position]
        folded = word.casefold()
        after_verb = position > 0 and tokens[position - 1][0].casefold() in _USING
        position += 1
        if folded in names:
            clause.tools.append(names[folded])
        elif is_quoted:
            _take_quoted(clause, word, is_about_files)
        elif folded in _OBVIOUS or (after_verb and (folded in _ORDINARY or _SCRIPT.fullmatch(word))):
            arguments = []
            while position < len(tokens) and _is_argument(*tokens[position]) and tokens[position][0] not in names:
                arguments.append(tokens[position][0])
                position += 1
            clause.commands.append((word, *arguments))
        elif is_about_files and _PATH.fullmatch(word):
            clause.paths.append(word)
        elif folded in _NEGATIONS:
            clause.is_negated = True
        elif folded in _USING:
            clause.is_using = True
        elif folded in _CHANGING:
            clause.is_changing = True
        elif folded in _READING:
            clause.is_reading = True
        elif folded not in _PLAIN:
            clause.rest.append(word)
    if not clause.rest and (clause.tools or clause.commands or clause.is_using) and is_about_files:
        clause.rest += [word for word, _ in tokens]  # "never use exec to write x": a purpose, not a thing
    return clause


def _take_quoted(clause: _Clause, text: str, is_about_files: bool) -> None:
    """What stands in quotes is a path where files are spoken of, else a command; more than one command is neither."""
    words = list(commands_in(text))
    if is_about_files and _PATH.fullmatch(text):
        clause.paths.append(text)
    elif words and _PROGRAM.fullmatch(words[0][0]) and not _JOINTS.search(text):
        clause.commands.append(words[0])
    else:
        clause.rest.append(text)


_JOINTS = re.compile(r"[|;&<>()`\n]|\$\(")
_PROGRAM = re.compile(r"[\w./+~-]*\w[\w.+-]*")


def _is_argument(word: str, is_quoted: bool) -> bool:
    """Whether a word can belong to the command before it; words of a sentence end it."""
    if is_quoted or not word.isascii() or not _ARGUMENT.fullmatch(word):
        return False
    known = (_NEGATIONS, _USING, _CHANGING, _READING, _PLAIN, _CONDITIONS, _ONLY, _PREPOSITIONS)
    return word.startswith("-") or not any(word.casefold() in group for group in known)


_PREPOSITIONS = _words(
    "for on in at from with via by of over against about as so then than auf im zu für von mit nach über um ans sur "
    "dans pour vers avec par en para con a desde al hacia"
)
