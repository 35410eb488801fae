"""Coding games on rows in the formats of HumanEval and MBPP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import srl_envs
from srl_envs import registry
from srl_envs.check_tasks import check_tasks
from srl_envs.core import Split, Streams, episode_entropy
from srl_envs.errors import ConfigError
from srl_envs.families.coding.code_duel import CodeDuel
from srl_envs.families.coding.judging import Judge, Verdict
from srl_envs.families.coding.pair_programming import PairProgramming
from srl_envs.families.coding.spec_golf import SpecGolf
from srl_envs.families.coding.tasks import RecordedTask, check_source
from srl_envs.families.coding.tasks.asserts import single_asserts
from srl_envs.families.coding.tasks.recorded import with_preamble
from srl_envs.reading.task_rows import UnusableTaskWarning
from srl_envs.row_seeds import naming_rows
from srl_envs.sandbox import Outcome
from srl_envs.testing import CHECKS
from tests.commit_cases import nightly_but
from tests.srl_envs.families.collections_of_ours import ROWS, humaneval_rows, mbpp_rows, write
from tests.srl_envs.families.in_process import InProcess

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
FORMATS = ("humaneval", "mbpp")
GAMES = {"code_duel": CodeDuel, "spec_golf": SpecGolf, "pair_programming": PairProgramming}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Format -> ``FORMAT:PATH`` of ten good rows."""
    folder = tmp_path_factory.mktemp("rows")
    return {
        name: f"{name}:{write(folder / f'{name}.jsonl.gz', ROWS[name](10))}" for name in FORMATS
    }


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """References run in this process: the rows are ours."""
    executor = InProcess()
    monkeypatch.setattr(
        "srl_envs.families.coding.tasks.collection.CodeExecutor", lambda _limits: executor
    )
    return executor


def task_of(game: Any, state: Any) -> RecordedTask:
    drawn = state.tasks[0] if hasattr(state, "tasks") else state
    found = game._tasks.task(drawn.family, drawn.parameters)
    assert isinstance(found, RecordedTask)
    return found


# -- taking tests apart ------------------------------------------------------------------------


def test_a_check_is_taken_apart_into_its_asserts() -> None:
    row = humaneval_rows(1)[0]
    tests = single_asserts(row["test"], "", "scale_2")
    assert len(tests) == 3
    assert "assert candidate(empty) == []" in tests[0]
    assert all("empty = []" in test for test in tests)
    assert not any("nothing is tested" in test for test in tests)
    assert "for n in range(5)" in tests[2]
    assert all(test.endswith("check(scale_2)") for test in tests)


@pytest.mark.parametrize(
    ("check", "count"),
    [
        ("def check(candidate):\n    assert True", 0),
        ("def check(candidate):\n    assert 1 == 1, 'x'", 0),
        ("def check(candidate):\n    candidate(1)", 0),
        ("assert f(1) == 1", 0),
        ("def check(c):\n    x = c(1)\n    assert x == 1\n    assert c(2) == 2", 2),
        ("def check(c):\n    def same(a): assert c(a) == a\n    same(1)\n    same(2)", 1),
        ("def check(c):\n    if True:\n        assert c(1) == 1\n        assert c(2) == 2", 1),
    ],
)
def test_asserts_on_constants_are_no_tests(check: str, count: int) -> None:
    assert len(single_asserts(check, "", "f")) == count


def test_future_imports_stay_in_front_of_the_preamble() -> None:
    program = "from __future__ import annotations\nimport math\ndef f(x: Nothing):\n    return k()"
    whole = with_preamble("def k():\n    return 7", program)
    namespace: dict[str, Any] = {}
    exec(compile(whole, "x", "exec", dont_inherit=True), namespace)
    assert namespace["f"](1) == 7
    assert with_preamble("", program) == program


# -- rows --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_every_reference_of_ours_scores_one(sources: dict[str, str], name: str) -> None:
    """In the sandbox, through the game itself."""
    report = check_tasks(sources[name])
    assert len(report.tasks) == 10
    assert report.rejected == ()
    game = CodeDuel(tasks=sources[name])
    state = game.new(Streams(1))
    task = task_of(game, state)
    program = game.parse(state, 0, task.row.reference)
    state = game.apply(state, {0: program, 1: task.empty_program})
    assert state.passed == (len(state.hidden), 0)
    assert game.returns(state) == (0.7, -0.7)
    game.close()


def test_a_humaneval_row_becomes_a_task(in_process: InProcess, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", humaneval_rows(10))
    row = check_source(f"humaneval:{path}").tasks[0]
    assert row.id == "Ours/2"
    assert row.signature == "scale_2(numbers: List[int], shift: int=0) -> List[int]"
    assert row.text.startswith("from typing import List")
    assert row.text.endswith('"""')
    assert "def factor_2" in row.preamble
    assert "def factor_2" not in row.reference
    assert row.shown == ()
    assert len(row.tests) == 3


def test_an_mbpp_row_shows_one_assert_and_hides_the_others(
    in_process: InProcess, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", mbpp_rows(10))
    row = check_source(f"mbpp:{path}").tasks[1]
    assert (row.id, row.function, row.signature) == ("MBPP/2", "repeat_2", "repeat_2(text)")
    assert row.shown == ('assert repeat_2("a") == "aa"',)
    assert len(row.tests) == 2
    assert not any('"aa"' in test for test in row.tests)


def test_sanitized_mbpp_rows_are_read_too(in_process: InProcess, tmp_path: Path) -> None:
    rows = [
        {
            "task_id": row["task_id"],
            "prompt": row["text"],
            "code": row["code"],
            "test_imports": ["import math"],
            "test_list": [*row["test_list"], f'assert math.isqrt(len(repeat_{k}("x"))) >= 1'],
            "source_file": "x",
        }
        for k, row in enumerate(mbpp_rows(10), 1)
    ]
    report = check_source(f"mbpp:{write(tmp_path / 'a.jsonl', rows)}")
    assert len(report.tasks) == 10
    assert len(report.tasks[0].tests) == 3


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("humaneval", {"canonical_solution": "    return []\n"}, "does not pass its own tests"),
        ("humaneval", {"canonical_solution": "  oops oops\n"}, "no Python"),
        ("humaneval", {"entry_point": "other"}, "define other 0 times"),
        ("humaneval", {"test": "def check(candidate):\n    assert True\n"}, "no assert tests"),
        ("humaneval", {"test": "def check(candidate:\n"}, "no Python"),
        (
            "humaneval",
            {"prompt": '"""' + "x" * 3100 + '"""\n' + humaneval_rows(1)[0]["prompt"]},
            "over 3000",
        ),
        ("mbpp", {"code": "def repeat_1(text):\n    return 'b'"}, "does not pass its own tests"),
        ("mbpp", {"code": "def other(text):\n    return 'b'"}, "found: none"),
        ("mbpp", {"test_list": ["assert repeat_1("]}, "no Python"),
        ("mbpp", {"test_list": []}, "found: none"),
        (
            "mbpp",
            {"code": "def repeat_1(text):\n    return text\n#" + "x" * 4000},
            "no seat may send",
        ),
    ],
)
def test_a_row_that_cannot_be_played_is_reported_by_line_and_id(
    in_process: InProcess, tmp_path: Path, name: str, changes: dict[str, Any], words: str
) -> None:
    rows = ROWS[name](10)
    rows[0] = {**rows[0], **changes}
    source = f"{name}:{write(tmp_path / 'a.jsonl', rows)}"
    with pytest.warns(UnusableTaskWarning) as caught:
        game = CodeDuel(tasks=source)
    (rejected,) = check_source(source).rejected
    assert rejected.where == "a.jsonl line 1"
    assert rejected.id in ("Ours/2", "MBPP/1")
    assert words in rejected.reason
    assert str(rejected) in str(caught[0].message)
    drawn = {game.new(Streams(seed)).parameters for seed in range(60)}
    assert not [text for text in drawn if f'"{rejected.id}"' in text]


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("humaneval", {"prompt": None}, "a.jsonl line 3: field 'prompt' must be text"),
        ("humaneval", {"task_id": "Ours/2"}, "line 3: the id 'Ours/2' stands at a.jsonl line 1"),
        ("mbpp", {"test_list": "assert"}, "line 3: field 'test_list' must be a list of texts"),
        ("mbpp", {"task_id": None}, "line 3: field 'task_id' must be a number or a text"),
        ("mbpp", {"test_setup_code": 5}, "line 3: field 'test_setup_code' must be text"),
    ],
)
@pytest.mark.parametrize("game", sorted(GAMES))
def test_a_broken_row_is_an_error_that_names_the_line(
    in_process: InProcess, tmp_path: Path, game: str, name: str, changes: dict[str, Any], words: str
) -> None:
    rows = ROWS[name](10)
    rows[2] = {**rows[2], **changes}
    with pytest.raises(ConfigError) as caught:
        srl_envs.make(f"{game}-v0", tasks=f"{name}:{write(tmp_path / 'a.jsonl', rows)}")
    assert words in str(caught.value)


def test_a_missing_field_is_named(in_process: InProcess, tmp_path: Path) -> None:
    rows = humaneval_rows(3)
    del rows[1]["entry_point"]
    with pytest.raises(ConfigError, match="line 2: missing field 'entry_point'"):
        CodeDuel(tasks=f"humaneval:{write(tmp_path / 'a.jsonl', rows)}")


# -- games -------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", sorted(GAMES))
@pytest.mark.parametrize("name", FORMATS)
def test_options_of_generated_tasks_do_not_go_with_rows(
    sources: dict[str, str], in_process: InProcess, game: str, name: str
) -> None:
    options: tuple[dict[str, Any], ...] = ({"difficulty": 1}, {"families": ["knapsack"]})
    for option in options:
        with pytest.raises(ConfigError, match="leave them out with tasks"):
            GAMES[game](tasks=sources[name], **option)


def test_there_is_no_attack_phase_on_rows(sources: dict[str, str], in_process: InProcess) -> None:
    game = CodeDuel(tasks=sources["mbpp"])
    assert game.max_turns == 1
    assert "ATTACK" not in game.observe(game.new(Streams(0)), 0)
    CodeDuel(tasks=sources["mbpp"], attack_rounds=0)
    single = CodeDuel(tasks=sources["mbpp"], players=1)
    assert "player_" not in single.observe(single.new(Streams(0)), 0)
    with pytest.raises(ConfigError, match="attack_rounds=1 needs generated tasks"):
        CodeDuel(tasks=sources["mbpp"], attack_rounds=1)


@pytest.mark.parametrize("game", sorted(GAMES))
def test_an_episode_asks_the_rows_that_its_seed_names(
    tmp_path: Path, in_process: InProcess, game: str
) -> None:
    made = GAMES[game](tasks=f"mbpp:{write(tmp_path / 'a.jsonl', ROWS['mbpp'](40))}")
    rows = made._tasks.report.splits["train"]
    assert made.rows_to_train == len(rows)
    for first in range(len(rows)):
        places = [(first + k) % len(rows) for k in range(made.rows_each)]
        seed = naming_rows(7, places)
        state: Any = made.new(Streams(*episode_entropy("x", 0, "train", seed)))
        asked = [json.loads(task.parameters)["id"] for task in getattr(state, "tasks", [state])]
        assert asked == [rows[place].id for place in places]


@pytest.mark.parametrize("game", sorted(GAMES))
@pytest.mark.parametrize("name", FORMATS)
def test_the_two_splits_share_no_row(
    tmp_path: Path, in_process: InProcess, game: str, name: str
) -> None:
    made = GAMES[game](tasks=f"{name}:{write(tmp_path / 'a.jsonl', ROWS[name](40))}")
    drawn: dict[Split, set[str]] = {"train": set(), "eval": set()}
    for split, rows in drawn.items():
        for seed in range(60):
            state: Any = made.new(Streams(*episode_entropy("x", 0, split, seed)))
            for task in getattr(state, "tasks", [state]):
                rows.add(task.parameters)
    assert not drawn["train"] & drawn["eval"]
    assert len(drawn["train"]) > len(drawn["eval"]) >= 3


def test_hidden_asserts_and_the_reference_show_nowhere(
    sources: dict[str, str], in_process: InProcess
) -> None:
    for name in FORMATS:
        for made in GAMES.values():
            try:
                game: Any = made(tasks=sources[name], executor=in_process)
            except ConfigError:
                game = made(tasks=sources[name], executor=in_process, rounds=1)
            state = game.new(Streams(0))
            task = task_of(game, state)
            shown = "".join(game.observe(state, seat) for seat in (0, 1))
            assert f"def {task.signature}:" in shown
            assert task.row.reference not in shown
            for test in task.row.tests:
                assert task.shown_test(test) not in shown


def test_the_driver_sees_the_signature_alone(
    sources: dict[str, str], in_process: InProcess
) -> None:
    for name in FORMATS:
        game = PairProgramming(tasks=sources[name], executor=in_process)  # type: ignore[arg-type]
        state = game.new(Streams(3))
        seen = game.observe(game.apply(state, {0: "hello"}), 1)
        task = task_of(game, state)
        assert f"def {task.signature}:" in seen
        assert task.row.text not in seen
        assert not [example for example in state.examples if example in seen]


def test_the_navigator_reads_which_assert_failed(
    sources: dict[str, str], in_process: InProcess
) -> None:
    game = PairProgramming(tasks=sources["humaneval"], executor=in_process)  # type: ignore[arg-type]
    state = game.new(Streams(3))
    task = task_of(game, state)
    state = game.apply(game.apply(state, {0: "hi"}), {1: f"def {task.function}(*a):\n    return 0"})
    assert state.passed == (0,)
    assert f"One that failed: assert {task.function}(empty) == []" in game.observe(state, 0)
    wrong = Verdict(False, Outcome(status="exception", message="<action>"))
    line = task.failure(f"def check(c):\n    assert c('<a>') == 1\ncheck({task.function})", wrong)
    assert line == f"assert {task.function}('<a>') == 1 (the program failed: action)"


def test_a_helper_of_the_task_cannot_be_replaced_for_the_tests(sources: dict[str, str]) -> None:
    """The tests call a helper that the statement defines; a program may not answer for it."""
    game = CodeDuel(tasks=sources["humaneval"])
    state = game.new(Streams(1))
    task = task_of(game, state)
    k = task.function.rpartition("_")[2]
    cheat = f"def factor_{k}(x):\n    return 0\ndef {task.function}(numbers, shift=0):\n    return numbers"
    cheat = cheat.replace("return numbers", "return [shift for _ in numbers]")
    state = game.apply(state, {0: cheat, 1: task.empty_program})
    assert state.passed[0] == 1  # only the empty list
    game.close()


@pytest.mark.parametrize("game", sorted(GAMES))
@pytest.mark.parametrize("name", FORMATS)
def test_states_survive_json_and_bots_reply_legally(
    sources: dict[str, str], in_process: InProcess, game: str, name: str
) -> None:
    options: dict[str, Any] = {"rounds": 1} if game == "spec_golf" else {}
    made: Any = GAMES[game](tasks=sources[name], executor=in_process, **options)
    for bot in srl_envs.spec(f"{game}-v0").bots:
        bots = [srl_envs.make_bot(f"{game}-v0", bot, seed) for seed in (1, 2)]
        state = made.new(Streams(0))
        while made.to_move(state):
            assert made.decode(json.loads(json.dumps(made.encode(state)))) == state
            actions = {}
            for seat in made.to_move(state):
                made.parse(state, seat, made.sample(state, seat, np.random.default_rng(0)))
                made.parse(state, seat, made.fallback(state, seat))
                body = bots[seat](made.observe(state, seat)).removeprefix("<action>")
                actions[seat] = made.parse(state, seat, body.removesuffix("</action>"))
            state = made.apply(state, actions)
        assert made.returns(state) is not None


@pytest.mark.slow
@pytest.mark.parametrize("check", ["contract", "determinism", "state_round_trip", "replay", "fuzz"])
def test_rows_keep_the_contract(
    sources: dict[str, str], check: str, tmp_path: Path, register_rows: Callable[[str], str]
) -> None:
    CHECKS[check](register_rows(sources["mbpp"]), 1)


@pytest.fixture
def register_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Registers code duel on one collection, as a third party would; the next file's tests do not see it."""
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))

    def register(source: str) -> str:
        name = f"tests/rows{abs(hash(source)) % 10**9}-v0"
        srl_envs.register(id=name, entry_point=f"{__name__}:CodeDuelOnRows", mode="competitive")
        CodeDuelOnRows.source = source
        return name

    return register


class CodeDuelOnRows(CodeDuel):
    """Takes its rows from the class."""

    source = ""

    def __init__(self) -> None:
        super().__init__(tasks=self.source)


# -- public collections ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("humaneval", "HumanEval.jsonl.gz", 164),
        ("mbpp", "mbpp.jsonl", 974),
        ("mbpp", "sanitized-mbpp.jsonl", 427),
    ],
)
def test_public_collections_are_played_but_for_rows_that_are_named(
    name: str, file: str, rows: int
) -> None:
    path = SHARED / name / file
    if not path.is_file():
        pytest.skip(f"no {file} in the {name} collection beside the repository")
    report = check_tasks(f"{name}:{path}")
    assert len(report.tasks) + len(report.rejected) == rows
    assert len(report.tasks) >= 0.95 * rows
    assert all(row.where and row.reason for row in report.rejected)
    if name == "humaneval":
        assert report.rejected == ()


@pytest.mark.nightly
@pytest.mark.slow
def test_each_humaneval_reference_passes_each_assert_by_itself() -> None:
    path = SHARED / "humaneval" / "HumanEval.jsonl.gz"
    if not path.is_file():
        pytest.skip("no humaneval collection beside the repository")
    judge = Judge()
    failed = []
    for row in check_source(f"humaneval:{path}").tasks:
        verdicts = RecordedTask(row).verdicts(judge, row.reference, row.tests)
        failed += [row.id for verdict in verdicts if not verdict.passed]
    judge.close()
    assert failed == []


SHADOWS = """
abs = round = sum = lambda *a, **k: 0
sorted = list = tuple = set = zip = range = map = str = lambda *a, **k: []
class math:
    fabs = sqrt = lambda *a: 0
poly = lambda *a: 0
encode_cyclic = encode_shift = lambda s: s
is_palindrome = lambda *a: True
"""


@pytest.mark.slow
@pytest.mark.parametrize("answer", nightly_but({"args[0]"}, ["args[0]", "0", "[]"]))
def test_no_generic_program_passes_the_tests_of_a_humaneval_row(answer: str) -> None:
    path = SHARED / "humaneval" / "HumanEval.jsonl.gz"
    if not path.is_file():
        pytest.skip("no humaneval collection beside the repository")
    judge, passed = Judge(), []
    for row in check_source(f"humaneval:{path}").tasks:
        program = f"{SHADOWS}\ndef {row.function}(*args): return {answer}"
        outcome = judge.asserts(with_preamble(row.preamble, program), "\n\n".join(row.tests))
        passed += [row.id] if outcome.passed else []
    judge.close()
    assert passed == []
