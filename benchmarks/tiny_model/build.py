"""Builds the shipped tiny model: bots' games, a tokenizer, a small Llama pretrained on them.

``python -m benchmarks.tiny_model.build`` makes the folder ``srl_agents/models/tiny/`` again. One torch
thread, no clock in the loop: the same seed gives the same weights on the same machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress, TextColumn

from benchmarks.tiny_model.corpus import SOURCES, Sample, Source, draw
from benchmarks.tiny_model.pretraining import TinySettings, encode, new_model, pretrain
from benchmarks.tiny_model.report import TinyPlayer, model_card
from benchmarks.tiny_model.tokenizer import opening, train_tokenizer
from srl_agents.models.quiet import quiet_libraries
from srl_agents.models.sources.catalog import TINY

FOLDER = TINY
TOKENIZER_SAMPLES = 8000
"""Samples that the tokenizer is trained on."""
OPENING_SHARE = 0.03
"""Sources with this share of the corpus have their rules as one token; from the others the model
learns to read rules of boards that it never saw.
"""
SHARPENING = 1.5
"""Factor on the last norm's weights, and so on the logits: sampling at temperature 1 then acts like
temperature 2/3 of the pretrained model, which loses fewer of its long programs to one bad token.
"""


def corpus(
    settings: TinySettings, sources: Sequence[Source], report: Callable[[], None]
) -> list[Sample]:
    """The samples of all sources, each its share; ``report`` is called after each source."""
    samples: list[Sample] = []
    for number, source in enumerate(sources):
        rng = np.random.default_rng([settings.seed, 2, number])
        samples += draw(source, int(settings.samples * source.share), rng)
        report()
    return samples


def build(settings: TinySettings, sources: Sequence[Source], folder: Path) -> None:
    """Write model, tokenizer and generation settings to ``folder``."""
    torch.set_num_threads(1)
    with Progress(*Progress.get_default_columns(), TextColumn("{task.fields[note]}")) as bar:
        playing = bar.add_task("games", total=len(sources), note="")
        samples = corpus(settings, sources, lambda: bar.advance(playing))
        tokenizer = train_tokenizer(
            [
                text
                for s in samples[:: max(1, len(samples) // TOKENIZER_SAMPLES)]
                for text in (s.prompt, s.naive[0], s.skilled[0])
            ],
            [
                opening([sample.prompt for sample in samples if sample.source == source.name])
                for source in sources
                if source.share >= OPENING_SHARE
            ],
            vocabulary=settings.vocabulary,
            most_phrases=settings.vocabulary // 2,
            least_uses=settings.phrase_uses,
        )
        encoded = encode(samples, tokenizer, {s.name: s.skill for s in sources})
        model = new_model(settings, len(tokenizer))
        training = bar.add_task("updates", total=None, note="")
        pretrain(
            model,
            encoded,
            settings,
            lambda done, total, loss: bar.update(
                training, completed=done, total=total, note=f"loss {loss:.3f}"
            ),
        )
    write(model, tokenizer, folder)


def write(model: Any, tokenizer: Any, folder: Path) -> None:
    """Sharpened weights as float16 that load as float32.

    Half the bytes, and the same numbers everywhere.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model.half()
    with torch.no_grad():
        model.model.norm.weight.mul_(SHARPENING)
    with quiet_libraries():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors makes it private
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["dtype"] = "float32"
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def write_manifest(folder: Path) -> None:
    """``manifest.json``: SHA-256 of every other file."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.name != "manifest.json")
    digests = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    (folder / "manifest.json").write_text(json.dumps({"sha256": digests}, indent=2) + "\n")


def main() -> None:
    """Build the folder, measure the model, write its card."""
    parser = argparse.ArgumentParser(description="Build the shipped tiny language model.")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write")
    for name in ("seed", "samples"):
        value = getattr(TinySettings(), name)
        parser.add_argument(f"--{name}", type=type(value), default=value)
    chosen = vars(parser.parse_args())
    folder = chosen.pop("out")
    settings = TinySettings(**chosen)
    started = time.process_time()
    build(settings, SOURCES, folder)
    minutes = (time.process_time() - started) / 60
    command = f"python -m benchmarks.tiny_model.build --seed {settings.seed}"
    card = model_card(settings, TinyPlayer(folder), folder, command, minutes)
    (folder / "README.md").write_text(card)
    write_manifest(folder)
    Console().print(card)


if __name__ == "__main__":
    main()
