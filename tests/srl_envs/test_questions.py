"""Questions of public collections: their prompts, and that every reference passes its own rule."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from srl_envs.api.questions import COLLECTIONS, collection, find_file, read_questions
from srl_envs.errors import ConfigError
from srl_envs.rewards import Rubric

SHARED = Path(__file__).parents[3] / "shared" / "data"
ROWS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "Two and two?", "answer": "2+2=<<2+2=4>>4\n#### 4"},
    "math": {"problem": "Half of one?", "answer": "\\frac{1}{2}"},
    "humaneval": {
        "task_id": "own/0",
        "prompt": 'from typing import List\n\ndef f(x: List[int]) -> int:\n    """The sum."""\n',
        "entry_point": "f",
        "canonical_solution": "    return sum(x)\n",
        "test": "def check(candidate):\n    assert candidate([1, 2]) == 3\n",
    },
    "mbpp": {"task_id": 7, "text": "Add.", "test_list": ["assert add(1, 2) == 3"], "code": ""},
}
REPLIES = {
    "gsm8k": ("It is \\boxed{4}.", "It is \\boxed{5}."),
    "math": ("\\boxed{0.5}", "\\boxed{2}"),
    "humaneval": (
        "```python\ndef f(x: List[int]) -> int:\n    return sum(x)\n```",
        "```python\ndef f(x):\n    return 0\n```",
    ),
    "mbpp": (
        "```python\ndef add(a, b):\n    return a + b\n```",
        "```python\ndef add(a, b):\n    return a\n```",
    ),
}


def file_of(folder: Path, name: str, row: dict[str, Any]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return path


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_right_reply_is_paid_and_a_wrong_one_is_not(name: str, tmp_path: Path) -> None:
    (question,), rejected = read_questions(name, file_of(tmp_path, name, ROWS[name]))
    assert rejected == []
    rubric = Rubric.from_config(dict(collection(name).rubric))
    right, wrong = REPLIES[name]
    assert [rubric(reply, **question.fields) for reply in (right, wrong, "")] == [1.0, 0.0, 0.0]


def test_the_solution_is_never_shown(tmp_path: Path) -> None:
    for name, row in ROWS.items():
        (question,), _ = read_questions(name, file_of(tmp_path, name, row))
        assert "sum(x)" not in question.text
        assert "####" not in question.text
        assert "frac" not in question.text


def test_a_file_is_found_where_it_is_published(tmp_path: Path) -> None:
    (tmp_path / "humaneval").mkdir()
    place = tmp_path / "humaneval" / "HumanEval.jsonl.gz"
    place.write_bytes(gzip.compress(json.dumps(ROWS["humaneval"]).encode()))
    assert find_file("humaneval", tmp_path) == place
    assert len(read_questions("humaneval", place)[0]) == 1
    with pytest.raises(ConfigError, match=r"gsm8k: .* holds none of gsm8k.jsonl"):
        find_file("gsm8k", tmp_path)
    with pytest.raises(ConfigError, match=r"gsm8k: the folder .*elsewhere does not exist"):
        find_file("gsm8k", tmp_path / "elsewhere")


@pytest.mark.parametrize(("name", "missing"), [("math", "problem"), ("mbpp", "test_list")])
def test_a_row_of_another_form_is_named(name: str, missing: str, tmp_path: Path) -> None:
    row = {key: value for key, value in ROWS[name].items() if key != missing}
    with pytest.raises(ConfigError, match=f"{name}.jsonl line 1: missing field '{missing}'"):
        read_questions(name, file_of(tmp_path, name, row))


def test_an_unknown_collection_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no collection 'gsm8'.*gsm8k"):
        collection("gsm8")


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared/data is not there")
def test_every_reference_of_gsm8k_is_right() -> None:
    asked, rejected = read_questions("gsm8k", find_file("gsm8k", SHARED))
    rubric = Rubric.from_config(dict(collection("gsm8k").rubric))
    paid = [
        rubric(f"\\boxed{{{question.fields['answer']}}}", **question.fields) for question in asked
    ]
    assert rejected == []
    assert paid == [1.0] * 1319


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="shared/data is not there")
def test_every_reference_of_humaneval_is_right() -> None:
    path = find_file("humaneval", SHARED)
    with gzip.open(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    asked, _ = read_questions("humaneval", path)
    rubric = Rubric.from_config(dict(collection("humaneval").rubric))
    replies = [f"```python\n{row['prompt']}{row['canonical_solution']}\n```" for row in rows]
    scores = rubric.score_many(replies, [question.fields for question in asked])
    assert [score.reward for score in scores] == [1.0] * 164
