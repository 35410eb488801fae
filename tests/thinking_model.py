"""A small random model whose chat template has thoughts, as reasoning models' templates do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from srl_agents.models.sources import random_model

TEMPLATE = (
    random_model.CHAT_TEMPLATE.removesuffix("{% endif %}")
    + "{% if enable_thinking is defined and not enable_thinking %}"
    + "{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)


def thinking_tokenizer(*, opens: bool = False) -> Any:
    """With one token for each marker; ``opens``: the template begins thoughts itself."""
    tokenizer = random_model.random_tokenizer()
    tokenizer.add_tokens(["<think>", "</think>"])
    tokenizer.chat_template = TEMPLATE
    if opens:
        tokenizer.chat_template = TEMPLATE.replace("assistant\n", "assistant\n<think>\n")
    return tokenizer


def build(folder: Path) -> Path:
    """Model and tokenizer in a folder, which is returned."""
    random_model.build(folder)
    thinking_tokenizer().save_pretrained(folder)
    return folder
