"""The shipped tiny model: it loads, fits its bounds, and writes legal moves on eval positions."""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from srl_agents.engines import build_tiny, tiny_report
from srl_agents.engines.tiny_tokenizer import SPECIALS, TAGS

FOLDER = build_tiny.FOLDER
BOARDS = ({}, {"rows": 5, "cols": 5, "k": 3}, {"rows": 5, "cols": 4, "k": 3})


@cache
def player() -> tiny_report.TinyPlayer:
    return tiny_report.TinyPlayer(FOLDER)


@pytest.mark.parametrize("folder", [FOLDER])
def test_manifest_matches_the_files(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    assert manifest["sha256"] == digests


def test_is_small() -> None:
    assert sum(p.numel() for p in player().model.parameters()) <= 5_000_000
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 10 * 2**20
    assert next(player().model.parameters()).dtype == torch.float32


def test_special_tokens_are_apart_and_tags_are_words() -> None:
    tokenizer = player().tokenizer
    assert len(tokenizer) <= 2048
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    for text in (*SPECIALS, *TAGS, *"0123456789"):
        assert len(tokenizer(text)["input_ids"]) == 1
    for tag in TAGS:
        assert tokenizer.decode(tokenizer(tag)["input_ids"], skip_special_tokens=True) == tag
    assert len(tokenizer("1234567")["input_ids"]) == 7


@given(st.text(max_size=200) | st.sampled_from(["<action>X.O\n", "..XO\n", "  def solve\n\n\t"]))
def test_any_text_survives_the_tokenizer(text: str) -> None:
    text = re.sub(r"<\|\w+\|>", "", text)
    tokenizer = player().tokenizer
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


@pytest.mark.parametrize("options", BOARDS)
def test_prompts_of_connect_four_are_short(options: dict[str, int]) -> None:
    case = tiny_report.positions("connect_four-v0", options, 1)[0]
    assert len(player().encode(case.text)) <= 110


@pytest.mark.parametrize("options", BOARDS)
def test_writes_legal_columns(options: dict[str, int]) -> None:
    cases = tiny_report.positions("connect_four-v0", options, 60)
    assert tiny_report.legal_share(player(), cases) >= 0.97


@pytest.mark.parametrize("difficulty", [1, 3, 5])
def test_writes_legal_answers(difficulty: int) -> None:
    cases = tiny_report.positions("math_duel-v0", {"difficulty": difficulty}, 40)
    assert tiny_report.legal_share(player(), cases) >= 0.97
