"""Models of tiny's build for small games that tiny has never seen.

    python -m benchmarks.learning.small_games MODEL --out FOLDER [--seed 0]

The shipped `tiny` cannot learn to write in most games through LoRA. Words that its pretraining never
met, such as ``check``, are spelled with tokens whose embeddings are all but equal (440 of 1341, of
length 3.1 and 0.1 apart), and the head, tied to them and frozen, cannot tell them apart however long an
imitation lasts. So this program does for Kuhn poker, blotto, mini Hanabi and public goods what
`benchmarks.tiny_model.build` does for the games of tiny: the same architecture, the same
pretraining on bots' replies, a tokenizer in which the rules are single tokens, and in codewords duet
every word of the lexicon, too: models of this size do not learn to copy words of several tokens. At the end
it imitates the random bot and skilled ones in given shares, so it writes legal replies and has room to rise.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

import srl_envs
from benchmarks.learning.hanabi_notes import hanabi_notes
from benchmarks.tiny_model.build import write
from benchmarks.tiny_model.corpus import Bot, Sample
from benchmarks.tiny_model.pretraining import TinySettings, encode, new_model, pretrain
from benchmarks.tiny_model.tokenizer import opening, train_tokenizer
from srl_envs.lexicon import associations

FOLDER = Path("runs/models")
RANDOM_MOVES = 0.4
"""Share of moves that are the random bot's in the games that are watched, so that they differ."""
DRAWS = 24
"""Replies that the random bot is asked for at each observation; the target is their mixture."""
Notes = tuple[tuple[int, int, int], ...]
Spans = tuple[tuple[int, int], ...]
_COPIED = re.compile(r"^(?:Your targets|Open words): (.*)$", re.MULTILINE)
_CHOICES = re.compile(r"^(?:Clues that fit|Open words): (.*)$", re.MULTILINE)
NEAR = 4
"""Words at the start of a list that `SmallGame.near` names in codewords duet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallGame:
    """One game of the corpus."""

    options: Mapping[str, Any]
    samples: int
    """Observations of it."""
    skill: float
    """Share of the skilled bots' replies in what the finished model imitates."""
    skilled: tuple[str, ...] = ("middle", "strong")
    notes: Callable[[str], Notes] = lambda _: ()
    """What a training-only head has to tell at which places of an observation; see `Sample.notes`."""
    words: Callable[[], Sequence[str]] = tuple
    """Texts that are one token each, beside the rules."""
    near: Callable[[str], tuple[str, ...]] | None = None
    """Replies in the place of the random bot's, and of all bots' where `first` is true."""
    first: Callable[[str], bool] = lambda _: False
    """Observations at which the bots' choice is beyond a model of this size."""
    spans: Callable[[str], Spans] = lambda _: ()
    """What of an observation the model predicts like a reply; see `Sample.spans`."""


_HANABI = {"colours": 1, "hand": 2, "clues": 3, "max_retries": 0}
GAMES: Mapping[str, SmallGame] = MappingProxyType(
    {
        "kuhn_poker-v0": SmallGame(options={"hands": 1}, samples=1600, skill=0.1),
        "blotto-v0": SmallGame(
            options={"soldiers": 10, "fields": 3, "rounds": 1, "values": [1, 2, 3]},
            samples=4000,
            skill=0.1,
        ),
        "hanabi_mini-v0": SmallGame(options=_HANABI, samples=10_000, skill=0.2),
    }
)
HANABI: Mapping[str, SmallGame] = MappingProxyType(
    {"hanabi_mini-v0": SmallGame(options=_HANABI, samples=24_000, skill=0.6, notes=hanabi_notes)}
)
"""At a fifth of skilled replies a team scores no more than at random, and short runs learn the form of
a reply and nothing else; so this model begins in the middle. Without notes it does not learn to compare
cards with the pile."""
PUBLIC_GOODS: Mapping[str, SmallGame] = MappingProxyType(
    {
        "public_goods-v0": SmallGame(
            options={"rounds": 1, "cuts_from": 0, "max_retries": 0},
            samples=4000,
            skill=0.1,
            skilled=("free_rider", "punisher"),
        )
    }
)
"""Gives any legal number: a learner that cannot write one gives all by default, and may keep to that."""


def _lexicon() -> list[str]:
    """The nouns and clues of codewords duet, and what stands between them in lists."""
    return [", ", *sorted({*associations(), *chain(*associations().values())})]


def _copied(text: str) -> Spans:
    """Words that stand in the list of all words before: copying is learned there."""
    found = list(_COPIED.finditer(text))
    if not found:
        raise ValueError("the text shows no targets")
    words = re.compile(r"\w+")
    return tuple(word.span() for line in found for word in words.finditer(text, *line.span(1)))


def _first_words(text: str) -> tuple[str, ...]:
    """The first few words of the list that is to choose from, each as a reply."""
    found = _CHOICES.search(text)
    words = re.findall(r"\w+", found.group(1))[:NEAR] if found else ["pass"]
    return tuple(f"<action>{word}</action>" for word in words)


def _gives_a_clue(text: str) -> bool:
    """Whether a clue is due, not guesses."""
    return "\nClues that fit: " in text


CODEWORDS: Mapping[str, SmallGame] = MappingProxyType(
    {
        "codewords_duet-v0": SmallGame(
            options={"turns": 3, "max_retries": 0},
            samples=12_800,
            skill=0.5,
            words=_lexicon,
            near=_first_words,
            first=_gives_a_clue,
            spans=_copied,
        )
    }
)
"""Any of 46 clues alike is beyond 128 dimensions: the sum of so many tokens differs from the other 400 by
1.7 standard deviations only. So this model names one of the first few of a list, which it can look at. It
replies legally, and has not learned which nouns a clue fits."""
CORPORA: Mapping[str, Mapping[str, SmallGame]] = MappingProxyType(
    {
        "small_games": GAMES,
        "hanabi": HANABI,
        "public_goods": PUBLIC_GOODS,
        "public_goods_narrow": PUBLIC_GOODS,
        "codewords": CODEWORDS,
    }
)
"""Name of a model -> what it reads."""
SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "public_goods_narrow": {"seed": 1, "hidden": 96, "vocabulary": 1024},
        "codewords": {
            "rope_theta": 10_000.0,
            "heads": 2,
            "layers": 3,
            "spread": 0.1,
            "phrase_uses": 4000,
        },
    }
)
"""Name of a model -> what differs from `TinySettings`: two models of a game of unlike width and tokens. Words
that are copied from 200 tokens before need long wavelengths, heads of 64 dimensions to hold one of a thousand
words, embeddings that differ from the start, and no phrase that hides a word in a token of its own."""


def observations(env_id: str, game: SmallGame, seed: int) -> Iterator[str]:
    """What seats on move see in games of bots on train seeds, without end."""
    rng = np.random.default_rng([seed, 1])
    env: Any = srl_envs.make(env_id, split="train", **game.options)
    bots = _bots(env_id, game, seed)
    seen: list[str] = []

    def watch(before: dict[str, dict[str, Any]], step: srl_envs.Step) -> None:
        seen.extend(before[env.possible_agents[seat]]["text"] for seat in step.replies)

    def player(name: str) -> Bot:
        def act(text: str) -> str:
            return bots["random" if rng.random() < RANDOM_MOVES else name](text)

        return act

    while True:
        names = rng.choice(["random", *game.skilled], size=len(env.possible_agents))
        seen.clear()
        players = {seat: player(name) for seat, name in enumerate(names)}
        srl_envs.play(env, players, seed=int(rng.integers(2**31)), on_step=watch)
        yield from seen


def samples(env_id: str, game: SmallGame, seed: int) -> list[Sample]:
    """Observations with what the random bot and the skilled ones reply."""
    bots = _bots(env_id, game, seed + 1)
    found = zip(range(game.samples), observations(env_id, game, seed), strict=False)
    return [
        Sample(
            env_id,
            text,
            naive=game.near(text)
            if game.near
            else tuple(bots["random"](text) for _ in range(DRAWS)),
            skilled=(
                game.near(text)
                if game.near and game.first(text)
                else tuple(bots[name](text) for name in game.skilled)
            ),
            notes=game.notes(text),
            spans=game.spans(text),
        )
        for _, text in found
    ]


def _bots(env_id: str, game: SmallGame, seed: int) -> dict[str, Bot]:
    names = ("random", *game.skilled)
    return {name: srl_envs.make_bot(env_id, name, seed=seed) for name in names}


def require(model: str) -> Path:
    """The folder of a model of `CORPORA`, which is built if it is not there."""
    folder = FOLDER / model
    if not folder.is_dir():
        print(f"building {folder}, a few minutes", flush=True)
        partial = folder.with_suffix(".tmp")
        shutil.rmtree(partial, ignore_errors=True)
        build(partial, model)
        partial.replace(folder)
    return folder


def build(folder: Path, name: str, seed: int = 0) -> None:
    """Write a model of `CORPORA` with its tokenizer; the same seed gives the same on one machine."""
    torch.set_num_threads(1)
    settings, games = TinySettings(**{"seed": seed, **SHAPES.get(name, {})}), CORPORA[name]
    corpus = {env_id: samples(env_id, game, settings.seed) for env_id, game in games.items()}
    flat = [sample for some in corpus.values() for sample in some]
    tokenizer = train_tokenizer(
        [text for s in flat for text in (s.prompt, s.naive[0], s.skilled[0])],
        [
            *(opening([sample.prompt for sample in some]) for some in corpus.values()),
            *(word for game in games.values() for word in game.words()),
        ],
        vocabulary=settings.vocabulary,
        most_phrases=settings.vocabulary // 4,
        least_uses=settings.phrase_uses,
    )
    model = new_model(settings, len(tokenizer))
    encoded = encode(flat, tokenizer, {env_id: game.skill for env_id, game in games.items()})
    pretrain(model, encoded, settings, _say)
    write(model, tokenizer, folder)


def _say(done: int, total: int, loss: float) -> None:
    if done % 100 == 0 or done == total:
        print(f"update {done} of {total}: loss {loss:.3f}", flush=True)


def main() -> None:
    """Build a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=list(CORPORA))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    build(options.out, options.model, options.seed)


if __name__ == "__main__":
    main()
