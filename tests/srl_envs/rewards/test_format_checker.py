import copy
import itertools
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from srl_envs.errors import ConfigError
from srl_envs.rewards import FORMAT_REASONS, FormatChecker, FormatSpec
from srl_envs.rewards.blocks import scan_boxes, scan_fences, scan_tags
from srl_envs.rewards.format.wording import EXAMPLE_HEADING

HERE = Path(__file__).parent
SETTINGS: dict[str, dict[str, Any]] = json.loads((HERE / "format_settings.json").read_text())
LABELLED = [
    json.loads(line) for line in (HERE / "format_completions.jsonl").read_text().splitlines()
]
MORE_SETTINGS = {
    **SETTINGS,
    "nothing": {},
    "solution": {
        "blocks": ["plan", "answer"],
        "think": "required",
        "only_blocks": True,
        "boxed": True,
        "fence": ["python", "py"],
        "min_words": 15,
        "max_words": 40,
        "max_chars": 400,
        "json": {"fence": {"type": "array", "items": {"type": "number"}, "minItems": 2}},
        "forbidden": ["as an AI"],
        "partial": True,
        "weights": {"box": 3, "whole": 0.5},
    },
    "any_order": {"blocks": ["a", "b"], "ordered": False, "min_words": 4},
}


def checker(name: str, **changes: Any) -> FormatChecker:
    return FormatChecker.from_config({**MORE_SETTINGS[name], **changes})


@pytest.mark.parametrize("row", LABELLED, ids=lambda row: f"{row['format']}-{row['reason']}")
def test_labelled_replies(row: dict[str, str]) -> None:
    score = checker(row["format"]).check(row["reply"])
    assert score.reason == row["reason"]
    assert score.value == (1.0 if row["reason"] == "ok" else 0.0)


def test_every_reason_is_labelled_at_least_three_times() -> None:
    seen = [row["reason"] for row in LABELLED]
    assert [reason for reason in FORMAT_REASONS if seen.count(reason) < 3] == []
    assert set(seen) == set(FORMAT_REASONS)
    assert len({(row["format"], row["reply"]) for row in LABELLED}) == len(LABELLED) >= 100


@pytest.mark.parametrize("name", MORE_SETTINGS)
def test_the_example_that_ends_the_instructions_passes(name: str) -> None:
    """Fails where the wording asks for one thing and the check for another."""
    text = checker(name).instructions()
    _, heading, reply = text.partition(EXAMPLE_HEADING)
    assert heading
    assert checker(name).check(reply).value == 1.0


@pytest.mark.parametrize("name", MORE_SETTINGS)
def test_instructions_name_all_that_is_checked(name: str) -> None:
    spec = checker(name).spec
    text = checker(name).instructions().partition(EXAMPLE_HEADING)[0]
    wanted = [f"<{tag}>...</{tag}>" for tag in spec.blocks] + list(spec.forbidden)
    wanted += ["<think>", "</think>"]
    wanted += ["\\boxed{...}"] if spec.boxed else []
    wanted += [f"```{language}" for language in spec.languages]
    wanted += ["nothing before, between or after"] if spec.only_blocks else []
    wanted += ["in this order"] if spec.ordered and len(spec.blocks) > 1 else []
    wanted += [json.dumps(schema, separators=(",", ":")) for schema in spec.json.values() if schema]
    wanted += list(spec.patterns.values())
    limits = (spec.max_chars, spec.max_words, spec.min_words, spec.max_block_chars)
    wanted += [f" {limit} " for limit in limits if limit]
    assert [part for part in wanted if part not in text] == []


def test_unordered_blocks_may_come_either_way() -> None:
    assert checker("any_order").check("<b>1</b> now then <a>2</a>").reason == "ok"
    assert "in this order" not in checker("any_order").instructions()


@pytest.mark.parametrize("name", MORE_SETTINGS)
def test_a_checker_survives_plain_values(name: str) -> None:
    made = checker(name)
    config = json.loads(json.dumps(made.to_config()))
    assert config == MORE_SETTINGS[name]
    assert FormatChecker.from_config(config) == made
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made


def test_a_checker_is_frozen() -> None:
    schema = {"type": "string"}
    made = FormatChecker(FormatSpec(json={"reply": schema}))
    schema["type"] = "integer"
    assert made.check('"a"').value == 1.0
    assert '{"type":"string"}' in made.instructions()
    with pytest.raises(AttributeError):
        made.partial = True  # type: ignore[misc]


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("<think>a</think><answer>7</answer>", 1.0),
        ("<think>a</think><answer>7</answer> so", 2 / 3),
        ("<think>a</think>7", 1 / 3),
        ("<answer>7</answer>", 1 / 3),
        ("</answer></think><think><answer>", 0.0),
        ("", 0.0),
    ],
)
def test_partial_credit_by_hand(reply: str, value: float) -> None:
    assert checker("r1", partial=True).check(reply).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        # weights: block 1, JSON 2, whole 1; two required keys share 0.6, each half for presence
        ('{"move": "left", "steps": 2}', 1.0),
        ("left", (1 + 2 * 0.0) / 4),
        ("[]", (1 + 2 * 0.2) / 4),
        ('{"move": "up"}', (1 + 2 * 0.35) / 4),
        ('{"move": "left"}', (1 + 2 * 0.5) / 4),
        ('{"move": "left", "steps": 0}', (1 + 2 * 0.65) / 4),
        ('{"move": "left", "steps": 2, "why": 0}', (1 + 2 * 0.8) / 4),
    ],
)
def test_partial_credit_for_json_by_hand(answer: str, value: float) -> None:
    made = checker("move", partial=True, weights={"json:<answer>": 2})
    assert made.check(f"<answer>{answer}</answer>").value == pytest.approx(value)


def test_a_further_right_part_never_earns_less() -> None:
    """All 64 replies out of six parts that are right or wrong each."""
    right: tuple[str, ...] = (
        "<think>a</think>",
        "<plan>a</plan>",
        "<answer>7</answer>",
        "\\boxed{1}",
    )
    right = (*right, "\n```py\nx\n```\n", "<data>[1]</data>")
    wrong: tuple[str, ...] = (
        "",
        "<plan></plan>",
        "<answer>8</answer><answer>7</answer>",
        "\\boxed{1",
    )
    wrong = (*wrong, "\n```js\nx\n```\n", "<data>[1</data>")
    spec = FormatSpec(
        blocks=("plan", "answer", "data"), think="required", boxed=True, fence="py",
        json={"<data>": {}},
    )  # fmt: skip
    made = FormatChecker(spec, partial=True, weights={"box": 0.0, "fence": 7.0})
    values = {
        choice: made.check(
            "".join(pair[c] for pair, c in zip(zip(wrong, right, strict=True), choice, strict=True))
        ).value
        for choice in itertools.product((0, 1), repeat=6)
    }
    assert values[(1,) * 6] == 1.0
    for low, high in itertools.permutations(values, 2):
        if all(a <= b for a, b in zip(low, high, strict=True)):
            assert values[low] <= values[high]
        if high != (1,) * 6:
            assert values[high] < 1.0


def test_thoughts_are_never_searched_for_parts() -> None:
    reply = "<think><answer>7</answer>\\boxed{1}</think>"
    report = FormatChecker(FormatSpec(blocks=("answer",), boxed=True)).explain(reply)
    assert {name: part.reason for name, part in report.parts.items()} == {
        "<answer>": "missing",
        "box": "box_missing",
    }
    assert checker("prefilled", partial=True).check("<answer>7</answer>").value == 0.0
    assert checker("r1", partial=True).check("<think>a <answer>7</answer>").value == 0.0


def test_the_report_holds_what_was_found() -> None:
    reply = "```python\na\n```\n```py\nb = 1\n```"
    assert checker("last_code").explain(reply).parts["fence"].body == "b = 1\n"
    assert checker("move").explain("<answer> 7 </answer>").parts["<answer>"].body == " 7 "


def test_blocks_inside_each_other_are_no_blocks() -> None:
    scan = scan_tags("<a>1<b>2</b></a><b>3</b>", ("a", "b"))
    assert scan.faults["a"] == scan.faults["b"] == "nested"
    assert all(block.body != "1<b>2</b>" for block in scan.blocks)


def test_a_block_closes_with_its_own_tag() -> None:
    scan = scan_tags("<a>1</b>2</a>", ("a", "b"))
    assert [block.body for block in scan.blocks] == ["1</b>2"]
    assert scan.faults == {"b": "nested"}


@pytest.mark.parametrize(
    ("text", "fences", "unclosed"),
    [
        ("a\n```Python title=x\nx = 1\n\ny\n```\nb", [("python", "x = 1\n\ny\n")], False),
        ("   ```py\n     a\n b\n```", [("py", "  a\nb\n")], False),
        ("~~~ a`b\n~~~~", [("a`b", "")], False),
        ("```a`b\nx", [], False),
        ("```\n   ```  \n", [("", "")], False),
        ("```\n    ```\n", [], True),
        ("```\na\r\n```\r\n~~~\rb\r~~~", [("", "a\n"), ("", "b\n")], False),
        ("```\na\x0b```\n\u2028```\n```", [("", "a\x0b```\n\u2028```\n")], False),
    ],
)
def test_fences_by_the_rules_of_commonmark(
    text: str, fences: list[tuple[str, str]], unclosed: bool
) -> None:
    found, left_open = scan_fences(text)
    assert [tuple(fence) for fence in found] == fences
    assert left_open == unclosed


def test_boxes_are_found_by_their_braces() -> None:
    text = "} \\boxed{a{b}\\}} { \\boxed{\\boxed{c}}"
    spans, unclosed = scan_boxes(text)
    assert [text[a:b] for a, b in spans] == ["a{b}\\}", "c", "\\boxed{c}"]
    assert not unclosed


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"blocks": ["think"]}, "'think' is not a tag"),
    ({"blocks": ["a b"]}, "'a b' is not a tag"),
    ({"blocks": ["a", "a"]}, "distinct"),
    ({"blocks": "answer"}, "list"),
    ({"blocks": [1]}, "list"),
    ({"block": ["answer"]}, "Did you mean 'blocks'"),
    ({"think": "requird"}, "Did you mean 'required'"),
    ({"think": "prefilled"}, "think_prefilled"),
    ({"think": "forbidden", "think_prefilled": True}, "contradict"),
    ({"only_blocks": True}, "at least one tag"),
    ({"ordered": 1}, "true or false"),
    ({"partial": "yes"}, "true or false"),
    ({"max_block_chars": 5}, "at least one tag"),
    ({"max_chars": 0}, "from 1 on"),
    ({"max_words": True}, "from 1 on"),
    ({"min_words": -1}, "from 0 on"),
    ({"min_words": 2.5}, "from 0 on"),
    ({"min_words": 5, "max_words": 4}, "below"),
    ({"max_json_depth": 101}, "100 or less"),
    ({"forbidden": [""]}, "forbidden"),
    ({"fence": ""}, "not a language"),
    ({"fence": []}, "name a language"),
    ({"fence": "a b"}, "not a language"),
    ({"many_fences": True}, "needs a language"),
    ({"blocks": ["answer"], "json": {"<anwser>": {}}}, "Did you mean '<answer>'"),
    ({"json": {"box": {}}}, "unknown place 'box'"),
    ({"json": {"reply": "string"}}, "mapping"),
    ({"json": ["reply"]}, "place: rule"),
    ({"patterns": {"reply": 7}}, "pattern as text"),
    ({"weights": {"reply": 1}}, "no part 'reply'"),
    ({"blocks": ["answer"], "weights": {"answer": 1}}, "Did you mean '<answer>'"),
    ({"weights": {"whole": 0}}, "from 0.01"),
    ({"weights": {"whole": "1"}}, "give a number"),
    ({"weights": {"whole": float("nan")}}, "from 0.01"),
    ({"weights": [1]}, "part: weight"),
    ({"example": 7}, "whole reply"),
    ({"blocks": ["answer"], "example": "7"}, "does not have the format: missing"),
    ({"patterns": {"reply": "[0-9]+"}}, "Give one as example"),
    ({"blocks": ["answer"], "max_chars": 10}, "Give one as example"),
    ({"blocks": ["answer"], "forbidden": ["<ANSWER>"]}, "forbidden_text"),
    ({"blocks": ["answer"], "json": {"reply": {}}}, "missing"),
]


@pytest.mark.parametrize(("settings", "message"), IMPOSSIBLE)
def test_impossible_formats_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=r".") as caught:
        FormatChecker.from_config(settings)
    assert message in str(caught.value)


def test_a_format_is_a_mapping() -> None:
    with pytest.raises(ConfigError, match="mapping"):
        FormatChecker.from_config(["blocks"])  # type: ignore[arg-type]


def test_a_format_without_json_and_patterns_needs_no_further_package() -> None:
    program = (
        "import sys; import srl_envs, srl_envs.rewards as r;"
        "assert r.FormatChecker(r.FormatSpec(blocks=('a',))).check('<a>1</a>').value == 1;"
        "assert not {'jsonschema', 're2', 'yaml', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize(
    ("package", "found", "settings"),
    [
        ("jsonschema", None, {"json": {"reply": {}}}),
        ("re2", None, {"patterns": {"reply": "a"}, "example": "a"}),
        ("re2", None, {"json": {"reply": {"pattern": "a"}}}),
        ("re2", re, {"patterns": {"reply": "a"}, "example": "a"}),
    ],
)
def test_an_absent_package_is_named_with_the_way_to_get_it(
    package: str, found: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own engine, as some packages called re2 offer it, is as good as none."""
    monkeypatch.setitem(sys.modules, package, found)
    with pytest.raises(ConfigError, match=r"srl-envs\[rewards\]"):
        FormatChecker.from_config(settings)


GUIDE = HERE.parents[2] / "docs/guides/rewards.md"


def guide(pattern: str) -> list[str]:
    section = re.split(r"^## ", GUIDE.read_text(), flags=re.MULTILINE)
    (text,) = (part for part in section if part.startswith("Format checking"))
    return re.findall(pattern, text, flags=re.DOTALL | re.MULTILINE)


def test_the_code_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = guide(r"```python\n(.*?)```")
    exec(compile(code, "rewards.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "Score(value=1.0, reason='ok')" in printed
    assert "Score(value=0.0, reason='trailing_text')" in printed


def test_the_settings_of_the_guide_make_a_checker() -> None:
    (text,) = guide(r"```yaml\n(.*?)```")
    settings = yaml.safe_load(text)
    assert FormatChecker.from_config(settings).to_config() == settings


def test_the_guide_lists_every_reason() -> None:
    assert guide(r"^\| `(\w+)` \|") == list(FORMAT_REASONS)
