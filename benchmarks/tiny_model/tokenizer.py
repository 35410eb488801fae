"""The tiny model's tokenizer: byte-level BPE, single digits, rows of boards, whole rule sentences.

Rules are the same in every prompt of an environment, so each of their sentences is one token: a
prompt of connect four is little more than its board.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD, END, SYSTEM, USER, ASSISTANT = SPECIALS = (
    "<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>",
)  # fmt: skip
TAGS = ("<action>", "</action>", "<think>", "</think>")
MAX_VOCABULARY = 2048
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] }}"
    "{% if m['role'] == 'assistant' %}{{ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
CELLS = tuple("".join(cells) for cells in product("XO.", repeat=4)) + tuple(
    "".join(cells) + "\n" for rest in (1, 2, 3) for cells in product("XO.", repeat=rest)
)
"""Rows of a board: four cells, then the rest of up to three. So the row above is two tokens back on
every board of 4 to 7 columns.
"""
_PHRASE = re.compile(r"[^0-9\n]+\n*")
_TAG = re.compile("|".join([*map(re.escape, TAGS), r"^\| "]), re.MULTILINE)
"""Where phrases end: tags, and the mark before each line of a quoted program."""
_WORDS = re.compile(r"[a-z]{2}")


def phrases(texts: Iterable[str], *, most: int, least_uses: int) -> list[str]:
    """The pieces of lines between digits and tags that come up in most texts.

    Args:
        texts: prompts and replies.
        most: how many to return.
        least_uses: in how many texts a phrase must appear.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        found = {p for part in _TAG.split(text) for p in _PHRASE.findall(part)}
        counts.update(p for p in found if len(p) > 3 and _WORDS.search(p))
    saved = {p: n * len(p) for p, n in counts.items() if n >= least_uses}
    return sorted(sorted(saved), key=lambda p: -saved[p])[:most]


def opening(prompts: Sequence[str]) -> str:
    """The lines that all these prompts begin with: the rules."""
    first, last = min(prompts), max(prompts)  # what these two share, those between share as well
    differs = (i for i, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1)
    return first[: first.rfind("\n", 0, next(differs, len(first))) + 1]


def train_tokenizer(
    texts: Sequence[str],
    openings: Sequence[str],
    *,
    vocabulary: int,
    most_phrases: int,
    least_uses: int,
) -> Any:
    """Train on prompts and replies.

    Args:
        texts: what the model will read and write.
        openings: rules that many texts begin with; each becomes one token.
        vocabulary: number of tokens, at most `MAX_VOCABULARY`.
        most_phrases: how many of them may be whole phrases.
        least_uses: see `phrases`.

    Returns:
        A fast tokenizer with a chat template; ids 0 and 1 are pad and end.
    """
    found = phrases(texts, most=most_phrases, least_uses=least_uses)
    whole = list(dict.fromkeys([*openings, *found]))
    backend = Tokenizer(models.BPE(unk_token=None))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    rest = re.compile(
        "|".join(map(re.escape, sorted([*TAGS, *CELLS, *whole], key=len, reverse=True)))
    )
    backend.train_from_iterator(
        [piece for text in texts for piece in rest.split(text) if piece],
        trainers.BpeTrainer(
            vocab_size=vocabulary - len(TAGS) - len(CELLS) - len(whole),
            min_frequency=8,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=list(SPECIALS),
            show_progress=False,
        ),
    )
    backend.add_tokens(
        [AddedToken(t, special=False, normalized=False) for t in (*TAGS, *CELLS, *whole)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
