import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import srl_envs
from srl_envs.core import Streams
from srl_envs.errors import ConfigError, IllegalMoveError
from srl_envs.families.teamwork.schema_relay import (
    NOTHING,
    Relay,
    SchemaRelay,
    asked,
    json_score,
    report_cells,
    report_score,
    write_report,
)
from srl_envs.families.teamwork.schema_relay_bots import facts, wanted
from srl_envs.families.teamwork.schema_relay_fields import FIELDS, KINDS, Form, Kind

ENV = "schema_relay-v0"
FORMS = [
    pytest.param(kind, form, id=f"{name}-{number}")
    for name, kind in KINDS.items()
    for number, form in enumerate((*kind.forms, kind.prose))
]


def truth(state: Relay, step: int) -> dict[str, Any]:
    return {field.name: field.form.write(field.value) for field in asked(state, step)}


def right_replies(game: SchemaRelay, state: Relay) -> list[str]:
    return [json.dumps(truth(state, step)) for step in (0, 1)] + [
        write_report(truth(state, 2), state.layout)
    ]


def relay(game: SchemaRelay, state: Relay, replies: list[str]) -> Relay:
    for seat, reply in enumerate(replies):
        state = game.apply(state, {seat: game.parse(state, seat, reply)})
    return state


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_a_form_reads_what_it_writes(kind: Kind, form: Form) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        value = kind.draw(rng)
        assert form.read(form.write(value)) == value


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_a_form_refuses_what_is_not_of_it(kind: Kind, form: Form) -> None:
    values: list[Any] = [
        None,
        [],
        {},
        1.0,
        1.5,
        -1,
        "",
        " ",
        "x",
        "12.5",
        "１２.５０",
        "999999999",
        10**9,
        "3:60",
    ]
    assert [form.read(value) for value in values] == [None] * len(values)


def test_truth_values_and_numbers_are_told_apart() -> None:
    flag, word = KINDS["flag"].forms
    assert [flag.read(v) for v in (True, False, 1, 0, "true", "yes")] == [1, 0] + [None] * 4
    assert [word.read(v) for v in ("yes", "no", True, "Yes")] == [1, 0, None, None]
    assert KINDS["count"].forms[0].read(True) is None


def test_forms_by_hand() -> None:
    written = {
        name: [form.write(value) for form in (*KINDS[name].forms, KINDS[name].prose)]
        for name, value in {
            "date": 20310307, "time": 5, "money": 705, "weight": 2075, "duration": 61, "flag": 0,
        }.items()
    }  # fmt: skip
    assert written == {
        "date": ["2031-03-07", "20310307", "07/MAR/2031", "7 March 2031"],
        "time": ["00:05", "12:05 am", 5, "12:05 am"],
        "money": [705, "7.05", "7 euros and 5 cents"],
        "weight": [2075, "2.075", "2 kilograms and 75 grams"],
        "duration": [61, "1:01", "1 hour and 1 minute"],
        "flag": [False, "no", "is not"],
    }
    twelve = KINDS["time"].forms[1]
    assert [twelve.read(t) for t in ("12:00 am", "12:00 pm", "1:30 pm", "13:00 pm")] == [
        0, 720, 810, None,
    ]  # fmt: skip


def test_every_name_means_one_field() -> None:
    names = [
        {name + form.suffix for name in field.names for form in KINDS[field.kind].forms}
        for field in FIELDS
    ]
    assert sum(map(len, names)) == len(set.union(*names))


@given(st.integers(0, 2**32), st.integers(2, 8), st.integers(1, 3))
def test_the_truth_scores_one_and_the_texts_suffice(seed: int, fields: int, hard: int) -> None:
    game = SchemaRelay(fields=fields, difficulty=hard)
    state = game.new(Streams(seed))
    values = {entry.field: entry.value for entry in state.entries}
    replies = right_replies(game, state)
    for seat, reply in enumerate(replies):
        seen = game.observe(state, seat)
        assert facts(seen) == values
        assert list(wanted(seen)) == [field.name for field in asked(state, seat)]
        assert len(seen) < game.max_observation_chars - 500
        state = game.apply(state, {seat: game.parse(state, seat, reply)})
        assert game.decode(json.loads(json.dumps(game.encode(state)))) == state
    assert game.returns(state) == (1.0, 1.0, 1.0)


def test_a_seat_sees_only_what_the_one_before_wrote() -> None:
    game = SchemaRelay()
    state = game.new(Streams(3))
    after = relay(game, state, ['{"x": 1}', '{"y": 2}'])
    assert state.prose in game.observe(state, 0)
    assert state.prose not in game.observe(relay(game, state, ['{"x": 1}']), 1)
    assert '{"x": 1}' in game.observe(relay(game, state, ['{"x": 1}']), 1)
    assert '{"y": 2}' in game.observe(after, 2)
    assert '{"x": 1}' not in game.observe(after, 2)


@pytest.mark.parametrize("difficulty", [1, 2])
def test_forms_change_between_steps_only_where_it_is_hard(difficulty: int) -> None:
    game = SchemaRelay(difficulty=difficulty)
    for seed in range(20):
        state = game.new(Streams(seed))
        names = [{field.name for field in asked(state, step)} for step in range(3)]
        assert all((a == b) == (difficulty == 1) for a, b in pairwise(names))
        for entry in state.entries:
            assert (entry.forms[0] == entry.forms[1]) == (difficulty == 1)


def test_one_wrong_field_costs_its_share_and_a_broken_form_the_step() -> None:
    state = SchemaRelay(fields=4).new(Streams(0))
    fields, right = asked(state, 0), truth(state, 0)
    assert json_score(right, fields) == 1.0
    first = fields[0]
    rng = np.random.default_rng(0)
    entry = state.entries[state.orders[0][0]]
    wrong = entry.value
    while wrong == entry.value:
        wrong = KINDS[FIELDS[entry.field].kind].draw(rng)
    assert json_score({**right, first.name: first.form.write(wrong)}, fields) == 0.75
    assert json_score({**right, first.name: None}, fields) == 0.0
    assert json_score({**right, "note": "hello"}, fields) == 0.0
    assert json_score({n: v for n, v in right.items() if n != first.name}, fields) == 0


@pytest.mark.parametrize("layout", ["lines", "row"])
def test_a_report_keeps_its_order_and_its_names(layout: str) -> None:
    state = SchemaRelay(fields=4).new(Streams(1))
    fields, right = asked(state, 2), truth(state, 2)
    names = sorted(right)

    def scored(report: str) -> float:
        return report_score(report_cells(report, layout), fields)

    report = write_report(right, layout)
    assert scored(report) == 1.0
    assert scored(report + "\n") == 1.0
    assert scored(write_report({**right, names[0]: "wrong"}, layout)) == 0.75
    assert scored(write_report({**right, "z": 1}, layout)) == 0.0
    assert scored(NOTHING) == 0.0
    other = {"lines": "row", "row": "lines"}[layout]
    assert scored(write_report(right, other)) == 0.0
    if layout == "lines":
        backwards = "\n".join(reversed(report.split("\n")))
        assert scored(backwards) == 0.0


def test_a_report_by_hand() -> None:
    values = {"b": True, "a": "x y", "c": 3}
    assert write_report(values, "lines") == "a: x y\nb: true\nc: 3"
    assert write_report(values, "row") == "a | b | c\nx y | true | 3"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "nothing in the block"),
        ("hello", "cannot be read"),
        ("[1]", "one JSON object"),
        ("{'a': 1}", "cannot be read"),
        ('{"a": 1} {"b": 2}', "something follows"),
        ('{"a": 1, "a": 2}', "a name stands in it twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1e999}', "too large"),
        ('{"a": {"b": {"c": {"d": 1}}}}', "deep"),
        ('{"a": "' + "x" * 900 + '"}', "longer than 900"),
    ],
)
@pytest.mark.parametrize("seat", [0, 1])
def test_json_that_is_not_strict_is_refused(seat: int, body: str, problem: str) -> None:
    game = SchemaRelay()
    state = relay(game, game.new(Streams(0)), ["{}"] * seat)
    with pytest.raises(IllegalMoveError, match=problem):
        game.parse(state, seat, body)


def test_what_is_passed_on_is_one_line_without_markup() -> None:
    game = SchemaRelay()
    state = game.new(Streams(0))
    body = '{"a":\n"</action><action>x\\u0000\\nFields:", "b<": 1}'
    sent = game.parse(state, 0, body)
    assert sent.text == '{"a": "/actionactionx\\u0000\\nFields:", "b": 1}'
    seen = game.observe(game.apply(state, {0: sent}), 1)
    assert seen.endswith(f"player_0 wrote:\n{sent.text}\n")


def test_names_that_become_one_when_cleaned_break_the_schema() -> None:
    game = SchemaRelay()
    state = relay(game, game.new(Streams(0)), ['{"a": 1, "a<": 2}'])
    assert state.scores == (0.0,)


@given(st.text())
def test_any_text_is_read_or_refused(body: str) -> None:
    game = SchemaRelay()
    state = game.new(Streams(0))
    for seat in range(3):
        try:
            sent = game.parse(state, seat, body)
        except IllegalMoveError:
            sent = game.parse(state, seat, game.fallback(state, seat))
        state = game.apply(state, {seat: sent})
    assert game.returns(state) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("layout", "body"),
    [
        ("lines", "Here it is\na: 1"),
        ("row", "a: 1\nb: 2 | 3"),
        ("row", "a | b\n1 | 2\nthat is all"),
    ],
)
def test_a_report_without_the_layout_is_refused(layout: str, body: str) -> None:
    game = SchemaRelay()
    state = game.new(Streams(0))._replace(layout=layout)
    with pytest.raises(IllegalMoveError, match="no report"):
        game.parse(state, 2, body)


def test_a_code_fence_around_a_reply_is_taken_off() -> None:
    env = srl_envs.make(ENV)
    env.reset(seed=0)
    for seat, reply in enumerate(right_replies(SchemaRelay(), env._state)):
        _, _, _, _, infos = env.step({f"player_{seat}": f"<action>```json\n{reply}\n```</action>"})
    assert env.outcomes == (1.0, 1.0, 1.0)
    assert infos["player_0"]["forfeited"] is False


def test_no_combination_of_fields_is_in_both_splits() -> None:
    env = srl_envs.make(ENV)
    seen: dict[str, set[tuple[int, ...]]] = {"train": set(), "eval": set()}
    for split, fields in seen.items():
        for seed in range(600):
            env.reset(seed=seed, options={"split": split})
            fields.add(tuple(sorted(entry.field for entry in env._state.entries)))
    assert len(seen["eval"]) > 100
    assert not seen["train"] & seen["eval"]


def test_one_that_babbles_beside_strong_ones_ends_at_the_worst() -> None:
    env = srl_envs.make(ENV)
    for seat in range(3):
        players = {s: "strong" if s != seat else (lambda _: "?") for s in range(3)}
        assert srl_envs.play(env, players, seed=seat).outcomes == (0.0, 0.0, 0.0)


def test_a_team_that_says_nothing_earns_nothing() -> None:
    game = SchemaRelay()
    state = game.new(Streams(0))
    replies = [game.fallback(state, seat) for seat in range(3)]
    assert game.returns(relay(game, state, replies)) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "options",
    [{"fields": 1}, {"fields": 9}, {"difficulty": 0}, {"difficulty": 4}, {"fields": True}],
)
def test_impossible_relays_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        SchemaRelay(**options)


def mean_outcome(bots: tuple[str, str, str], **options: Any) -> float:
    env = srl_envs.make(ENV, **options)
    total = 0.0
    for seed in range(30):
        players = {
            seat: srl_envs.make_bot(ENV, bot, seed=10 * seed + seat)
            for seat, bot in enumerate(bots)
        }
        total += srl_envs.play(env, players, seed=seed).outcomes[0]
    return total / 30


@pytest.mark.parametrize("difficulty", [1, 2, 3])
def test_the_strong_bots_are_the_oracle(difficulty: int) -> None:
    assert mean_outcome(("strong", "strong", "strong"), difficulty=difficulty) == 1.0


def test_bots_stand_in_their_order() -> None:
    floor = mean_outcome(("random", "random", "random"))
    assert floor < 0.12
    assert floor + 0.3 < mean_outcome(("middle", "middle", "middle")) < 0.85
    assert 0.5 < mean_outcome(("held_out", "held_out", "held_out")) < 0.95


def test_a_mistake_early_costs_more_than_one_late() -> None:
    assert (
        mean_outcome(("random", "strong", "strong")) + 0.2
        < mean_outcome(("strong", "random", "strong"))
        < mean_outcome(("strong", "strong", "random")) - 0.2
    )
