"""How the tiny model learns: batches of observations, soft targets over bots' replies, notes.

Two things make minutes enough. A target is not one reply but the mixture of all the bots' replies,
token by token. And the board's features are asked for inside the model, where a label is cheap.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.tiny_model.corpus import HEIGHT, LABELS, LINES, QUESTIONS, URGENCY, Sample
from benchmarks.tiny_model.tokenizer import ASSISTANT, USER

NOTE_LAYERS = (((HEIGHT, *range(LINES, QUESTIONS)), 2), ((URGENCY,), 1))
"""(questions, layers before the last that predict them): later layers can use the notes."""
RARE = 4.0
"""Weight of labels other than 0, which stands for nothing worth a note."""
STUDY = 0.9
"""Weight of the skilled replies while the model learns to read; see `skill_at`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TinySettings:
    """How the model is built."""

    seed: int = 0
    samples: int = 110_000
    """Observations in the corpus."""
    batch: int = 16
    """Observations per update."""
    hidden: int = 128
    layers: int = 5
    heads: int = 8
    rope_theta: float = 100.0
    """Base of the rotary wavelengths; small, as prompts are: neighbours must differ."""
    spread: float = 0.02
    """Standard deviation of new embeddings; the larger, the sooner rare tokens differ enough to be copied."""
    vocabulary: int = 2048
    phrase_uses: int = 12
    """In how many of the tokenizer's texts a phrase must appear to become one token."""
    muon_rate: float = 4e-3
    """Peak learning rate of the layers' matrices."""
    adam_rate: float = 2e-3
    """Peak learning rate of all else."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A sample as token ids."""

    prompt: NDArray[np.int64]
    naive: tuple[tuple[int, ...], ...]
    skilled: tuple[tuple[int, ...], ...]
    skill: float
    notes: tuple[tuple[int, int, int], ...]
    """(token of the prompt, question, label)."""
    predicted: tuple[int, ...]
    """Tokens of the prompt that are predicted like a reply."""


class Targets:
    """What one batch must predict: rows of (position, token, weight) and (position, label)."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, float]] = []
        """(row, position, next token, probability)."""
        self.notes: list[tuple[int, int, int, int]] = []
        """(row, position, question, label)."""


def encode(samples: Sequence[Sample], tokenizer: Any, skills: dict[str, float]) -> list[Encoded]:
    """Token ids of prompts (in the chat template) and replies (with the end token)."""
    user, assistant = tokenizer.convert_tokens_to_ids([USER, ASSISTANT])
    texts = sorted({reply for s in samples for reply in (*s.naive, *s.skilled)})
    ids = tokenizer(texts)["input_ids"]
    replies = {t: (*i, tokenizer.eos_token_id) for t, i in zip(texts, ids, strict=True)}
    prompts = tokenizer([s.prompt for s in samples], return_offsets_mapping=True)
    encoded = []
    for sample, tokens, offsets in zip(
        samples, prompts["input_ids"], prompts["offset_mapping"], strict=True
    ):
        at = {c: i + 1 for i, (low, high) in enumerate(offsets) for c in range(low, high)}
        predicted = [
            i + 1
            for i, (start, _) in enumerate(offsets)
            for low, high in sample.spans
            if low <= start < high
        ]
        encoded.append(
            Encoded(
                np.array([user, *tokens, assistant]),
                tuple(replies[reply] for reply in sample.naive),
                tuple(replies[reply] for reply in sample.skilled),
                skills[sample.source],
                tuple((at[place], question, label) for place, question, label in sample.notes),
                tuple(predicted),
            )
        )
    return encoded


def continuations(
    replies: Sequence[tuple[int, ...]], weights: Sequence[float], path: tuple[int, ...]
) -> Iterator[dict[int, float]]:
    """For each token of ``path``: how likely each token is at this place, among the replies that
    agree with the path so far.
    """
    alive = list(zip(replies, weights, strict=True))
    for place, token in enumerate(path):
        nexts: dict[int, float] = defaultdict(float)
        for reply, weight in alive:
            nexts[reply[place]] += weight
        total = sum(nexts.values())
        yield {t: w / total for t, w in nexts.items()}
        alive = [(r, w) for r, w in alive if r[place] == token]


def skill_at(progress: float, final: float) -> float:
    """Weight of the skilled replies: high while the model learns to read, low at the end.

    Imitating random play teaches nothing about the position, so that comes last.
    """
    fade = min(max((progress - 0.65) / 0.1, 0.0), 1.0)
    return STUDY + (final - STUDY) * fade


def rate_at(done: int, total: int) -> float:
    """Learning rate as a share of its peak: up over 100 updates, down from three fifths on."""
    return min(1.0, (done + 1) / 100) * max(min(1.0, (1 - done / total) / 0.4), 0.01)


def collate(
    samples: Sequence[Encoded], progress: float, rng: np.random.Generator
) -> tuple[torch.Tensor, Targets]:
    """(B, T) right-padded ids of prompts with one reply each, and what to predict."""
    targets, rows = Targets(), []
    for row, sample in enumerate(samples):
        skill = skill_at(progress, sample.skill)
        replies = [*sample.naive, *sample.skilled]
        weights = [(1 - skill) / len(sample.naive)] * len(sample.naive)
        weights += [skill / len(sample.skilled)] * len(sample.skilled)
        path = replies[int(rng.choice(len(replies), p=np.array(weights) / sum(weights)))]
        start = len(sample.prompt) - 1
        for step, nexts in enumerate(continuations(replies, weights, path)):
            targets.rows += [(row, start + step, t, w) for t, w in nexts.items()]
        targets.rows += [(row, i - 1, int(sample.prompt[i]), 1.0) for i in sample.predicted]
        targets.notes += [(row, *note) for note in sample.notes]
        rows.append(np.concatenate([sample.prompt, path[:-1]]))
    ids_BT = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for row, ids in enumerate(rows):
        ids_BT[row, : len(ids)] = ids
    return torch.from_numpy(ids_BT), targets


def loss_of(model: Any, head: torch.nn.Linear, ids_BT: torch.Tensor, targets: Targets) -> Any:
    """Cross-entropy per predicted token, plus that of each kind of note."""
    out = model.model(ids_BT, use_cache=False, output_hidden_states=True)
    rows, places, tokens, weights = zip(*targets.rows, strict=True)
    weight = torch.tensor(weights)
    spots, inverse = np.unique(np.array([rows, places]), axis=1, return_inverse=True)
    logits_NV = model.lm_head(out.last_hidden_state[spots[0], spots[1]])
    logprobs_NV = torch.log_softmax(logits_NV, dim=1)
    picked = logprobs_NV[inverse.reshape(-1), list(tokens)]
    loss = -(picked * weight).sum() / weight.sum()
    if targets.notes:
        for questions, layers_left in NOTE_LAYERS:
            states_BTH = out.hidden_states[-1 - layers_left]
            loss = loss + _note_loss(head, states_BTH, torch.tensor(targets.notes), questions)
    return loss


def _note_loss(
    head: torch.nn.Linear, states_BTH: torch.Tensor, notes_N4: torch.Tensor, asked: Sequence[int]
) -> Any:
    """Cross-entropy of the notes on the questions ``asked``."""
    chosen = torch.isin(notes_N4[:, 2], torch.tensor(asked))
    row_n, place_n, question_n, label_n = notes_N4[chosen].T
    states_nH = states_BTH[row_n, place_n]
    guesses_nF = head(torch.nn.functional.rms_norm(states_nH, states_nH.shape[1:]))
    guesses_nQL = guesses_nF.unflatten(1, (QUESTIONS, LABELS))
    guesses_nL = guesses_nQL[torch.arange(len(row_n)), question_n]
    wrong_n = torch.nn.functional.cross_entropy(guesses_nL, label_n, reduction="none")
    rare_n = torch.where(label_n == 0, 1.0, RARE)
    return (wrong_n * rare_n).sum() / rare_n.sum()


def batches(
    samples: Sequence[Encoded], size: int, rng: np.random.Generator
) -> Iterator[list[Encoded]]:
    """Batches of like length, in random order."""
    order = rng.permutation(len(samples))
    chunks = []
    for start in range(0, len(order), 32 * size):
        part = sorted(order[start : start + 32 * size], key=lambda i: len(samples[i].prompt))
        chunks += [part[i : i + size] for i in range(0, len(part), size)]
    for i in rng.permutation(len(chunks)):
        yield [samples[j] for j in chunks[i]]


def pretrain(
    model: Any,
    samples: Sequence[Encoded],
    settings: TinySettings,
    report: Callable[[int, int, float], None],
) -> None:
    """Train in place; ``report`` gets (updates done, of how many, loss)."""
    rng = np.random.default_rng([settings.seed, 1])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        head = torch.nn.Linear(settings.hidden, QUESTIONS * LABELS)
    optimizers = _optimizers(model, head, settings)
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    total = math.ceil(len(samples) / settings.batch)
    model.train()
    for done, batch in enumerate(batches(samples, settings.batch, rng)):
        rate = rate_at(done, total)
        for optimizer, peak in zip(optimizers, peaks, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = peak * rate
            optimizer.zero_grad()
        loss = loss_of(model, head, *collate(batch, done / total, rng))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        report(done + 1, total, float(loss.detach()))
    model.eval()


def _optimizers(model: Any, head: torch.nn.Linear, settings: TinySettings) -> list[Any]:
    """Muon for the matrices between the layers, AdamW for embeddings, norms and the notes' head.

    Muon needs a third of the updates that AdamW needs without it.
    """
    inner = [p for p in model.model.layers.parameters() if p.ndim == 2]
    matrices = {id(p) for p in inner}
    rest = [p for p in (*model.parameters(), *head.parameters()) if id(p) not in matrices]
    return [
        torch.optim.Muon(
            inner, lr=settings.muon_rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"
        ),
        torch.optim.AdamW(
            [
                {"params": [p for p in rest if p.ndim > 1], "weight_decay": 0.05},
                {"params": [p for p in rest if p.ndim == 1], "weight_decay": 0.0},
            ],
            lr=settings.adam_rate,
            betas=(0.9, 0.98),
            fused=True,
        ),
    ]


def new_model(settings: TinySettings, vocabulary: int) -> Any:
    """A Llama with random weights; pad is token 0 and end token 1."""
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=settings.hidden,
        intermediate_size=3 * settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        max_position_embeddings=4096,
        rope_parameters={"rope_type": "default", "rope_theta": settings.rope_theta},
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = LlamaForCausalLM(config)
    if settings.spread != config.initializer_range:
        with torch.no_grad():
            model.model.embed_tokens.weight.mul_(settings.spread / config.initializer_range)
    return model
