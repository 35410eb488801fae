"""Collections of rows: reading, refusing, splitting, reporting, and the program that lists."""

import json
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.check_tasks import check_tasks, main
from srl_envs.core import Split, Streams, episode_entropy
from srl_envs.errors import ConfigError
from srl_envs.families.reasoning.math_duel import MathDuel
from srl_envs.families.reasoning.word_problems import read_math
from srl_envs.reading.task_rows import (
    Rejected,
    Row,
    UnusableTaskWarning,
    check_collection,
    read_rows,
    read_source,
    split_tasks,
)

sys.path.insert(0, str(Path(__file__).parent / "families"))
from tests.srl_envs.families.collections_of_ours import gsm8k_rows, write

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


class Plain(NamedTuple):
    id: str
    text: str


# -- reading -----------------------------------------------------------------------------------


def test_plain_and_gzipped_files_hold_the_same_rows(tmp_path: Path) -> None:
    rows = gsm8k_rows(3)
    plain, packed = write(tmp_path / "a.jsonl", rows), write(tmp_path / "a.jsonl.gz", rows)
    assert [row.fields for row in read_rows(str(plain))] == rows
    assert [row.fields for row in read_rows(str(packed))] == rows
    assert [row.where for row in read_rows(str(plain))] == [f"a.jsonl line {k}" for k in (1, 2, 3)]


def test_empty_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\n{"a": 1}\r\n\n{"a": 2}')
    rows = list(read_rows(str(tmp_path / "a.jsonl")))
    assert [(row.where, row.fields["a"]) for row in rows] == [
        ("a.jsonl line 2", 1),
        ("a.jsonl line 4", 2),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"question": "a"', "rows.jsonl line 1: no JSON"),
        ("[1, 2]", "rows.jsonl line 1: list, not an object"),
        (
            '\n{"question": "a"}',
            "rows.jsonl line 2: missing field 'answer' (the row has: question)",
        ),
        ('{"question": 5, "answer": "#### 1"}', "line 1: field 'question' must be text"),
        ('{"question": " ", "answer": "#### 1"}', "line 1: field 'question' must be text"),
        ("", "the file has no rows"),
        ("[" * 100000, "line 1: no JSON"),
    ],
)
def test_a_broken_row_is_an_error_that_names_the_line(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(ConfigError) as caught:
        srl_envs.make("math_duel-v0", tasks=f"gsm8k:{tmp_path / 'rows.jsonl'}")
    assert words in str(caught.value)


def test_a_broken_row_is_told_before_any_reference_is_run(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [*gsm8k_rows(3), {"question": "?"}])
    judged: list[Plain] = []

    def judge(task: Plain) -> str:
        judged.append(task)
        return ""

    def read(row: Row) -> Plain:
        return Plain(row.where, row.text("answer"))

    with pytest.raises(ConfigError, match="line 4: missing field 'answer'"):
        check_collection("ours", str(path), read, judge)
    assert judged == []


@pytest.mark.parametrize("data", [b"\x1f\x8bnot gzip", b"\xff\xfe\x00rows"])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.gz").write_bytes(data)
    with pytest.raises(ConfigError, match="cannot be read"):
        list(read_rows(str(tmp_path / "a.gz")))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("gsm8k", "the path is missing"),
        ("gsm8k: ", "the path is missing"),
        ("gsm8:x.jsonl", "Did you mean 'gsm8k'"),
        (5, 'give "gsm8k:PATH"'),
        ("gsm8k:/no/such/file.jsonl", "the file does not exist"),
        ("gsm8k:nothing", "the file does not exist"),
        ("gsm8k:a/b/c/d", "the file does not exist"),
    ],
)
def test_an_option_that_names_no_collection_is_refused(option: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MathDuel(tasks=option)
    assert words in str(caught.value)


def test_a_source_is_a_format_and_a_path() -> None:
    assert read_source("gsm8k:C:/a:b", ["gsm8k"]) == ("gsm8k", "C:/a:b")


# -- repositories of `datasets` ----------------------------------------------------------------


def fake_datasets(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
    module: Any = ModuleType("datasets")
    module.load_dataset = load
    module.__version__ = "4.0.0"
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_a_repository_is_loaded_with_all_its_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(*names: str) -> dict[str, list[dict[str, Any]]]:
        asked.append(names)
        return {"train": gsm8k_rows(40)[:30], "test": gsm8k_rows(40)[30:]}

    fake_datasets(monkeypatch, load)
    report = check_tasks("gsm8k:some/sums/main")
    assert asked == [("some/sums", "main")]
    assert len(report.tasks) == 40
    assert report.tasks[0].id == "some/sums/main split test row 1"
    assert report.tasks[10].id == "some/sums/main split train row 1"


def test_a_repository_that_does_not_load_is_the_users_to_mend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*names: str) -> None:
        raise ConnectionError("no network")

    fake_datasets(monkeypatch, load)
    with pytest.raises(ConfigError, match="ConnectionError: no network"):
        list(read_rows("some/sums"))


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match="install the `datasets` package"):
        list(read_rows("some/sums"))


# -- the split ---------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=5), min_size=2))
def test_splits_share_no_text_and_lose_no_row(texts: list[str]) -> None:
    tasks = [Plain(str(k), text) for k, text in enumerate(texts)]
    sides = split_tasks(tasks)
    asked = {name: {words(t.text) for t in side} for name, side in sides.items()}
    assert not asked["train"] & asked["eval"]
    assert sorted(sides["train"] + sides["eval"]) == sorted(tasks)
    if len(set(map(words, texts))) > 1:
        assert all(sides.values())


def words(text: str) -> str:
    """What is asked, whatever the case and the marks between words."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def test_rows_that_differ_in_case_and_marks_alone_are_on_one_side() -> None:
    texts = [form.format(k) for k in range(60) for form in ("Add {}, then 2.", "add  {} then 2")]
    sides = split_tasks([Plain(str(k), text) for k, text in enumerate(texts)])
    asked = [{words(task.text) for task in side} for side in sides.values()]
    assert all(asked)
    assert not asked[0] & asked[1]


def test_a_row_stays_on_its_side_whatever_stands_around_it() -> None:
    tasks = [Plain(str(k), f"task {k}") for k in range(500)]
    held_back = set(split_tasks(tasks)["eval"])
    assert 60 <= len(held_back) <= 140
    assert set(split_tasks(tasks[::-1])["eval"]) == held_back
    assert set(split_tasks(tasks[100:400])["eval"]) == held_back & set(tasks[100:400])


def test_episodes_of_the_two_splits_share_no_problem(tmp_path: Path) -> None:
    game = MathDuel(tasks=f"gsm8k:{write(tmp_path / 'a.jsonl', gsm8k_rows())}", problems=3)
    seen: dict[Split, set[str]] = {"train": set(), "eval": set()}
    for seed in range(30):
        for split in seen:
            entropy = episode_entropy("x", 0, split, seed)
            seen[split] |= {problem.text for problem in game.new(Streams(*entropy)).problems}
    assert seen["train"]
    assert seen["eval"]
    assert not seen["train"] & seen["eval"]
    assert len(seen["train"] | seen["eval"]) >= 30


# -- math duel on rows -------------------------------------------------------------------------


def test_the_reference_answer_of_a_row_is_paid(tmp_path: Path) -> None:
    env = srl_envs.make(
        "math_duel-v0", tasks=f"gsm8k:{write(tmp_path / 'a.jsonl', gsm8k_rows())}", problems=2
    )
    env.reset(seed=3)
    state = env._state
    assert "\n" not in state.problems[0].text
    for problem in state.problems:
        results = env.step(
            {
                "player_0": f"<action>{problem.answer}; 3</action>",
                "player_1": "<action>pass</action>",
            }
        )
    assert results[1]["player_0"] == pytest.approx(8 / 14)
    env.close()


def test_long_questions_are_cut_once_they_are_past(tmp_path: Path) -> None:
    rows = [
        {"question": f"{k} " + "word " * 390 + "?", "answer": f"#### {k}"} for k in range(1, 120)
    ]
    game = MathDuel(tasks=f"gsm8k:{write(tmp_path / 'a.jsonl', rows)}", problems=10)
    state = game.new(Streams(0))
    while game.to_move(state):
        assert len(game.observe(state, 0)) <= game.max_observation_chars
        move = game.parse(state, 0, "123456789012345678901/23; 3")
        state = game.apply(state, {0: move, 1: move})


def test_generated_problems_and_rows_do_not_mix(tmp_path: Path) -> None:
    source = f"gsm8k:{write(tmp_path / 'a.jsonl', gsm8k_rows())}"
    for options in ({"difficulty": 1}, {"families": ["linear"]}):
        with pytest.raises(ConfigError, match="leave them out with tasks"):
            MathDuel(tasks=source, **options)
    with pytest.raises(ConfigError, match="problems=5 needs 5 in each"):
        MathDuel(tasks=f"gsm8k:{write(tmp_path / 'b.jsonl', gsm8k_rows(6))}")


# -- rows that cannot be played ----------------------------------------------------------------

UNUSABLE = [
    ({"question": "How many?", "answer": "six"}, "no #### before"),
    ({"question": "How many?", "answer": "#### six"}, "the final answer 'six' is not a number"),
    ({"question": "How many?", "answer": "#### 1/0"}, "is not a number"),
    ({"question": "How many?", "answer": f"#### {'9' * 30}"}, "no seat may write the answer"),
    ({"question": "word " * 500, "answer": "#### 1"}, "over 2000"),
]


@pytest.mark.parametrize(("row", "words"), UNUSABLE)
def test_a_row_that_cannot_be_played_is_reported_with_line_and_reason(
    tmp_path: Path, row: dict[str, str], words: str
) -> None:
    rows = [*gsm8k_rows()[:20], row, *gsm8k_rows()[20:]]
    source = f"gsm8k:{write(tmp_path / 'a.jsonl', rows)}"
    report = check_tasks(source)
    assert len(report.tasks) == 40
    assert [rejected.where for rejected in report.rejected] == ["a.jsonl line 21"]
    assert words in report.rejected[0].reason
    with pytest.warns(UnusableTaskWarning, match="1 of 41 rows") as caught:
        env: Any = srl_envs.make("math_duel-v0", tasks=source)
    assert "a.jsonl line 21" in str(caught[0].message)
    assert words in str(caught[0].message)
    assert env.game.task_report == report


def test_a_warning_names_five_rows_and_says_how_to_list_all(tmp_path: Path) -> None:
    bad = [{"question": f"q{k}", "answer": "none"} for k in range(8)]
    source = f"gsm8k:{write(tmp_path / 'a.jsonl', [*gsm8k_rows(), *bad])}"
    with pytest.warns(UnusableTaskWarning) as caught:
        MathDuel(tasks=source)
    text = str(caught[0].message)
    assert text.count("a.jsonl line") == 5
    assert "and 3 more" in text
    assert f"python -m srl_envs.check_tasks {source}" in text


def test_a_clean_collection_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MathDuel(tasks=f"gsm8k:{write(tmp_path / 'a.jsonl', gsm8k_rows())}")


def test_a_changed_file_is_checked_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", gsm8k_rows(30))
    assert len(check_tasks(f"gsm8k:{path}").tasks) == 30
    write(path, gsm8k_rows(35))
    assert len(check_tasks(f"gsm8k:{path}").tasks) == 35


def test_the_program_lists_every_row_and_says_so_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = f"gsm8k:{write(tmp_path / 'good.jsonl', gsm8k_rows())}"
    bad = f"gsm8k:{write(tmp_path / 'bad.jsonl', [*gsm8k_rows(), *(r for r, _ in UNUSABLE)])}"
    assert main([good]) == 0
    assert "40 rows can be played" in capsys.readouterr().out
    assert main([good, bad]) == 1
    out = capsys.readouterr().out
    assert all(f"  bad.jsonl line {line}: " in out for line in range(41, 46))
    assert main([]) == 2
    assert main(["gsm8k:/no/such.jsonl"]) == 2
    assert "the file does not exist" in capsys.readouterr().err


def test_the_public_collection_of_sums_is_paid_in_full() -> None:
    path = SHARED / "gsm8k" / "test.jsonl"
    if not path.is_file():
        pytest.skip("no gsm8k collection beside the repository")
    report = check_tasks(f"gsm8k:{path}")
    assert len(report.tasks) == 1319
    assert report.rejected == ()
    line = json.loads(path.read_text().splitlines()[0])
    assert report.tasks[0].problem.answer == line["answer"].rsplit("#### ", 1)[1]


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"answer": "42"}, "42"),
        ({"answer": r"-\frac{3}{4}"}, "-3/4"),
        ({"answer": r"\dfrac12"}, "1/2"),
        ({"answer": r"\$1,234"}, "1234"),
        ({"answer": r"45^\circ"}, "45"),
        ({"solution": r"first \boxed{3}, then \boxed{\frac{1}{2}}."}, "1/2"),
        ({"answer": r"2\frac{1}{2}"}, None),
        ({"answer": "x^2"}, None),
        ({"answer": "3,4"}, None),
        ({"solution": "nothing in a box"}, None),
        ({"solution": r"\boxed{3"}, None),
    ],
)
def test_rows_of_math_are_read_as_numbers_or_left_out(
    fields: dict[str, str], number: str | None
) -> None:
    found = read_math(Row("row 1", {"problem": "How many?", **fields}))
    assert (None if isinstance(found, Rejected) else found.problem.answer) == number


def test_rows_of_math_are_asked_in_the_duel(tmp_path: Path) -> None:
    rows = [{"problem": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(20)]
    game = MathDuel(tasks=f"math:{write(tmp_path / 'a.jsonl', rows)}", problems=2)
    assert game.task_report is not None
    assert len(game.task_report.tasks) == 20
