"""Words that take a value back or blur it: ``about 42``, ``not = 12``, ``42 or so``, ``42 roughly``.

No list is complete. So a noun in ``-ly`` counts as one too, and a text without a known form of an
answer stays unread.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_DENIALS = _words(
    """
    not no non nor neither never nope nah nay isn arent aint without except excluding but wrong
    incorrect incorrectly false falsely untrue mistaken invalid inaccurate bogus fake about approx
    approximately circa almost nearly roughly maybe perhaps probably possibly supposedly presumably
    nicht kein keine etwa ungefähr zirka mindestens höchstens beinahe falsch vielleicht außer
    pas environ presque faux sauf aucun casi aproximadamente quizás quizá falso excepto ninguno
    quasi forse tranne nessuno não nao quase talvez errado niet ongeveer bijna misschien geen nie około
    prawie może nästan ungefär kanske inte ikke nesten kanskje değil yaklaşık belki không khoảng
    """
)
_BLURS = _words(
    """
    none approximate approximation ca around near nearest close ish some somewhat something somewhere
    thereabouts ballpark estimate estimated est guess guessed might may could would should uncertain
    unsure doubtful unknown suppose supposed rough odd etc excl mistake error erroneous
    least most more less fewer greater smaller larger than over under above below beyond exceeding
    within upto between tops upward upwards onward onwards plus minus until till
    if unless or then because since so though although that this it either
    oder mehr weniger knapp fast ou moins plus más mas menos cerca più meno mais ponad mniej więcej
    asi méně více cirka
    """
)


def takes_back(word: str) -> bool:
    """Whether a word, in lower case, denies or blurs a value even as its label: ``not = 12``."""
    return word in _DENIALS


def is_hedge(word: str) -> bool:
    """Whether a word, in lower case, is not a noun beside a number: ``42 roughly``, ``42 or more``."""
    return word in _DENIALS or word in _BLURS or (len(word) > 4 and word.endswith("ly"))
