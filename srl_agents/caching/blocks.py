"""Names of token blocks: a block's hash covers its tokens and everything before them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from srl_envs.errors import ConfigError


def block_hashes(
    tokens: Sequence[int], tokens_per_block: int, *, model: str = "", partial: bool = False
) -> tuple[int, ...]:
    """Hashes of a prompt's blocks, each chained to the one before.

    Args:
        tokens: token ids, 0 or more and under 2^32.
        tokens_per_block: tokens that share one hash.
        model: what else the keys and values depend on: base model, adapter, weight version. Different
            names never share a block.
        partial: also hash the tokens after the last whole block. Engines reuse whole blocks only;
            traces list the partial one too.

    Returns:
        63-bit integers, so that JSON readers of every language keep them exact as text or int64.

    Raises:
        ConfigError: ``tokens_per_block`` is under 1, or a token id is out of range.
    """
    if tokens_per_block < 1:
        raise ConfigError(f"tokens_per_block={tokens_per_block}: expected 1 or more.")
    ids = np.asarray(tokens, dtype=np.int64)
    if ids.size and (ids.min() < 0 or ids.max() >= 2**32):
        raise ConfigError("token ids must be 0 or more and under 2^32.")
    chain = hashlib.sha256(model.encode()).digest()
    hashes = []
    stop = len(ids) if partial else len(ids) - len(ids) % tokens_per_block
    for start in range(0, stop, tokens_per_block):
        block = ids[start : start + tokens_per_block].astype("<u4").tobytes()
        chain = hashlib.sha256(chain + block).digest()
        hashes.append(int.from_bytes(chain[:8], "big") >> 1)
    return tuple(hashes)
