"""A small language model with random weights: the fake that tests and benchmarks load.

Nothing is downloaded. The output head is ten times the usual size: with the default one a
512-token distribution stays almost flat whatever LoRA does, so nothing could be learned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from srl_agents.models.quiet import quiet_libraries

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
_WORDS = "You are playing a game. Reply with one move in <action>1</action>. rock paper scissors"


def random_tokenizer(vocab: int = 320) -> Any:
    """Byte-level BPE tokenizer with a ChatML template; ids 0, 1, 2 are pad, start and end."""
    backend = Tokenizer(models.BPE(unk_token=None))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[PAD, START, END],
        show_progress=False,
    )
    backend.train_from_iterator([_WORDS] * 20, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=PAD, eos_token=END, padding_side="left"
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def build(
    folder: Path,
    *,
    kind: str = "qwen3",
    hidden: int = 64,
    layers: int = 2,
    vocab: int = 320,
    context: int = 1024,
    tied: bool = False,
    seed: int = 0,
    **options: Any,
) -> Path:
    """Write model and tokenizer to `folder` (made if absent) and return it.

    Args:
        folder: destination.
        kind: architecture, by transformers' name.
        hidden: width; 4 attention heads, 2 key-value heads.
        layers: number of blocks.
        vocab: number of tokens; the tokenizer may have fewer.
        context: longest sequence in tokens.
        tied: the output head is the embedding.
        seed: of the weights.
        options: of the architecture's configuration, beside these.
    """
    shape: dict[str, Any] = {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": hidden // 4,
        "max_position_embeddings": context,
        "tie_word_embeddings": tied,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 2,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = AutoConfig.for_model(kind, **(shape | options))
        model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(10.0)
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_libraries():
        model.save_pretrained(folder)
    random_tokenizer(vocab).save_pretrained(folder)
    return folder
