"""Answers in words: multiple choice, free text, dates, numbers that are spelled out."""

from __future__ import annotations

import re
import unicodedata

from srl_envs.rewards.matcher.words.hedges import takes_back
from srl_envs.rewards.matcher.words.spelled import read_number_word

_CHOICE = re.compile(
    r"(?:(?:the )?(?:final )?(?:correct )?(?:answer|option|choice)(?: is)?:? ?)?"
    r"(?:option |choice )?(\()?([A-Za-z])(?:(\)|\.|:)(?: ?(.*))?)?",
    re.DOTALL | re.IGNORECASE,
)
_OTHER_LETTER = re.compile(r"\(?\b[A-Z]\b[).:]|\b(?:or|and)\b|^[A-Z]$|,\s*[A-Z]\b")
_TAKEN_BACK = re.compile(
    r"\W*\?\W*|(?:is|was|isn't|wasn't)(?: not)?(?: (?:it|true|right|correct|wrong|false|incorrect))?\W*",
    re.IGNORECASE,
)
"""What follows a letter and is not the text of an option."""
_ARTICLE = re.compile(r"^(?:the|an|a) ")
_SHORT_WORDS = frozenset(
    ("no", "yes", "odd", "all", "any", "red", "one", "two", "six", "ten", "up", "on", "off", "tie",
     "out", "east", "west", "cat", "dog", "man", "men", "mon", "tue", "wed", "thu", "fri", "sat",
     "sun", "may", "not", "dry", "wet", "hot", "low", "big", "new", "old")
)  # fmt: skip
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
     "october", "november", "december",
)  # fmt: skip
_ISO_DATE = re.compile(r"([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})")
_MONTH_FIRST = re.compile(r"([a-z]{3,9})\.? ([0-9]{1,2})(?:st|nd|rd|th)?(?:,? ([0-9]{4}))?")
_DAY_FIRST = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th)?(?: of)? ([a-z]{3,9})\.?(?:,? ([0-9]{4}))?")
_NUMERIC_DATE = re.compile(r"([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4})")
_WEEKDAY = re.compile(r"^(?:on )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? )?(?:the )?")


_WORD_LABEL = re.compile(
    r"([A-Za-z]{3,20}(?: [A-Za-z]{2,20}){0,4})\s*=\s*(?=[^\s=])(.*)", re.DOTALL
)


def word_label(text: str) -> tuple[str, str]:
    """``total area = 12`` as (``total area``, ``12``); the label is empty where there is none."""
    found = _WORD_LABEL.fullmatch(text)
    if found is None or any(map(takes_back, found[1].lower().split())):
        return "", text
    label = found[1].lower()
    number = read_number_word(label)
    if number is not None:  # ``seven = 5``
        return "", f"{number} = {found[2]}"
    return ("", text) if label == plain_text(found[2]) else (label, found[2])


_NO_SOLUTION = re.compile(
    r"(?:(?:there(?: is| are|'s)|(?:(?:it|we|(?:the )?(?:equation|inequality|system)) )?(?:has|have)) )?"
    r"no (?:(?:real|integer|rational|valid|such) )?"
    r"(?:(?:solution|root)s?|values?(?: of [a-z])?)(?: exists?| for [a-z])?|none|(?:empty|null) set"
    r"|(?:the )?solution set is empty"
    r"|no existe solución|sin solución|pas de solution|aucune solution|keine lösung(?:en)?"
    r"|nessuna soluzione|sem solução|нет решени[йя]|无解|無解|空集|解なし|해 ?없음|공집합"
)
_EMPTY_SET = re.compile(r"(?:[A-Za-z]\s?(?:=|\\in)\s?)?(?:\\emptyset|\\?\{\s*\\?\}|Ø)")


def says_nothing(text: str) -> bool:
    r"""Whether a text states that no solution exists, in words or as the empty set."""
    return bool(_EMPTY_SET.fullmatch(text.strip()) or _NO_SOLUTION.fullmatch(plain_text(text)))


def read_choice(text: str) -> str | None:
    """The one letter that is chosen, in upper case; None for other texts and for hedges."""
    found = _CHOICE.fullmatch(" ".join(text.split()))
    if found is None or (found[1] and found[3] != ")"):
        return None
    if found[4] and (_OTHER_LETTER.search(found[4]) or _TAKEN_BACK.fullmatch(found[4])):
        return None
    return found[2].upper()


def names_several_options(text: str) -> bool:
    """Whether a text holds more than one single capital letter."""
    return len(set(re.findall(r"\b[A-Z]\b", text))) > 1


def is_choice(answer: str) -> bool:
    """Whether a reference answer names an option: ``B``, ``(B)``, ``B.`` or ``(B) 12``."""
    return bool(re.fullmatch(r"[A-J]|\(?[A-Z][).:](?: .*)?", answer.strip(), re.DOTALL))


def is_text(answer: str) -> bool:
    """Whether a reference answer is words rather than mathematics."""
    letters = answer.replace("'", "").replace("-", "").replace(".", "").replace(",", "")
    words = letters.split()
    if not words or not all(word.isalpha() for word in words):
        return False
    plain = [word.lower() for word in words]
    if len(plain) == 1:
        return len(plain[0]) > 3 or plain[0] in _SHORT_WORDS or not plain[0].isascii()
    return any(len(word) > 3 or word in _SHORT_WORDS for word in plain)


def plain_text(text: str, *, keep_articles: bool = False) -> str:
    """Words in one normal form: case folded, single spaces, no punctuation around them."""
    text = unicodedata.normalize("NFC", text).casefold().replace("’", "'")
    text = " ".join(text.split()).strip(" .!,;:\"'$*`")
    return text if keep_articles else _ARTICLE.sub("", text)


def read_date(text: str) -> tuple[int | str, ...] | None:
    """Year (0 where none is given), month and day of a date, None for anything else.

    ``03/05/2024`` is the third of May to some and the fifth of March to others: it comes back with
    its parts in the order in which they stand, and so equals no date but itself.
    """
    text = _WEEKDAY.sub("", " ".join(text.lower().split()))
    if found := _NUMERIC_DATE.fullmatch(text):
        first, second, year = (int(part) for part in found.groups())
        if first <= 12 and second <= 12 and first != second:
            return ("as written", first, second, year)
        month, day = sorted((first, second))
    elif found := _ISO_DATE.fullmatch(text):
        year, month, day = (int(part) for part in found.groups())
    elif found := _MONTH_FIRST.fullmatch(text):
        year, month, day = int(found[3] or 0), month_number(found[1]), int(found[2])
    elif found := _DAY_FIRST.fullmatch(text):
        year, month, day = int(found[3] or 0), month_number(found[2]), int(found[1])
    else:
        return None
    return (year, month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None


def month_number(name: str) -> int:
    """The number of a month, also where its name is cut to three letters; 0 for other words."""
    for number, full in enumerate(_MONTHS, start=1):
        if name in (full, full[:3]) or (name == "sept" and number == 9):
            return number
    return 0


_JOINT = re.compile(r"\s*(?:[,;&]\s*(?:\b(?:and|or)\b)?|\b(?:and|or)\b)\s*")


def read_names(text: str, *, keep_articles: bool = False) -> tuple[list[str], str]:
    """The items of an enumeration in words, and how it is joined: ``and``, ``or`` or nothing."""
    joints = {joint for joint in ("and", "or") if re.search(rf"\b{joint}\b", text)}
    items = [plain_text(item, keep_articles=keep_articles) for item in _JOINT.split(text)]
    return [item for item in items if item], "/".join(sorted(joints))
