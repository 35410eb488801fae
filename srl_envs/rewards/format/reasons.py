"""Every verdict of the format checker, with its meaning. Labels are counted, so they never change."""

from __future__ import annotations

FORMAT_REASONS: dict[str, str] = {
    "ok": "the reply has the format",
    # thoughts
    "think_missing": "no <think>...</think>",
    "think_unclosed": "thoughts that never end, or a reply cut off inside them",
    "think_unopened": "a </think> without its <think>",
    "think_prefilled": "the reply opens with <think>, which the prompt had written already",
    "think_nested": "<think> inside thoughts",
    "think_duplicate": "thoughts twice",
    "think_not_first": "text before the thoughts",
    "think_empty": "thoughts without a word",
    "think_forbidden": "a <think> or </think> where none may stand",
    # blocks
    "missing": "a block is absent",
    "unclosed": "an opening tag without its closing tag",
    "unopened": "a closing tag without its opening tag",
    "nested": "a tag inside another block",
    "duplicate": "a block twice",
    "empty": "nothing between two tags",
    "block_too_long": "more between two tags than max_block_chars",
    # box
    "box_missing": "no \\boxed{...}",
    "box_unclosed": "a \\boxed{ whose brace is never closed",
    "box_duplicate": "more than one box, or a box inside a box",
    "box_empty": "nothing in the box",
    # fence
    "fence_missing": "no code fence",
    "fence_unclosed": "a code fence that never ends",
    "fence_language": "only code fences of other languages",
    "fence_duplicate": "more than one code fence of the language",
    "fence_empty": "nothing in the code fence",
    # JSON
    "json_missing": "nothing where JSON was asked for",
    "json_invalid": "no JSON, or half a Unicode character in it",
    "json_trailing": "something after the JSON value",
    "json_duplicate_key": "a key twice in one object",
    "json_number": "NaN, an infinity, or a number that no double holds",
    "json_too_long": "more than max_json_chars",
    "json_too_deep": "nested deeper than max_json_depth",
    "json_schema": "JSON that does not fit the schema",
    # pattern
    "pattern_mismatch": "a text that the pattern does not describe as a whole",
    # the reply as a whole
    "order": "the blocks in another order",
    "leading_text": "text before the first block",
    "text_between": "text between two blocks",
    "trailing_text": "text after the last block",
    "too_long": "more than max_chars",
    "too_few_words": "fewer than min_words",
    "too_many_words": "more than max_words",
    "forbidden_text": "a text out of forbidden",
}
"""Reason of a `FormatChecker`'s score -> what it means."""
