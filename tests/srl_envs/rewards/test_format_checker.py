import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.errors import ConfigError
from srl_envs.rewards import FORMAT_REASONS, FormatChecker, FormatSpec
from srl_envs.rewards.blocks import scan_fences, scan_tags

R1 = FormatSpec(blocks=("answer",), think="required", only_blocks=True)
PREFILLED = FormatSpec(blocks=("answer",), think="prefilled", only_blocks=True)
FREE = FormatSpec(blocks=("answer",))
ACTION = FormatSpec(blocks=("action",), think="forbidden", max_block_chars=5)
PLAN = FormatSpec(blocks=("plan", "action"), max_chars=80, forbidden=("I cannot", "as an AI"))
BOXED = FormatSpec(boxed=True, min_words=2, max_words=6)
CODE = FormatSpec(fence="python")

LABELLED = [
    # one think block, then one answer, nothing else
    (R1, "<think>a</think><answer>7</answer>", "ok"),
    (R1, "<think>\na\n</think>\n\n<answer>\n7\n</answer>\n", "ok"),
    (R1, "  <think>maybe <answer>6</answer></think> <answer>7</answer>", "ok"),
    (R1, "<answer>7</answer>", "think_missing"),
    (R1, "", "think_missing"),
    (R1, "just 7", "think_missing"),
    (R1, "<think>a <answer>7</answer>", "think_unclosed"),
    (R1, "<think>", "think_unclosed"),
    (R1, "<think>a<think>b <answer>7</answer>", "think_unclosed"),
    (R1, "<think>a</think><think>b</think><answer>7</answer>", "think_duplicate"),
    (R1, "<think>a<think>b</think><answer>7</answer>", "think_duplicate"),
    (R1, "<think>a</think></think><answer>7</answer>", "think_duplicate"),
    (R1, "<think></think><answer>7</answer>", "think_empty"),
    (R1, "<think> \n</think><answer>7</answer>", "think_empty"),
    (R1, "<think>\t</think>", "think_empty"),
    (R1, "well <think>a</think><answer>7</answer>", "think_not_first"),
    (R1, "<answer>7</answer><think>a</think>", "think_not_first"),
    (R1, "a</think><answer>7</answer>", "think_not_first"),
    (R1, "<think>a</think>7", "missing"),
    (R1, "<think>a</think>", "missing"),
    (R1, "<think>a <answer>7</answer></think>", "missing"),
    (R1, "<think>a</think><answer>7", "unclosed"),
    (R1, "<think>a</think><answer>7<answer/>", "unclosed"),
    (R1, "<think>a</think><answer>7</answer ><answer>", "nested"),
    (R1, "<think>a</think>7</answer>", "unopened"),
    (R1, "<think>a</think></answer><answer>7", "unopened"),
    (R1, "<think>a</think><answer>7</answer></answer>", "unopened"),
    (R1, "<think>a</think><answer><answer>7</answer></answer>", "nested"),
    (R1, "<think>a</think><answer>7<answer>8</answer>", "nested"),
    (R1, "<think>a</think><answer>7</answer><answer>8</answer>", "duplicate"),
    (R1, "<think>a</think><answer>7</answer><answer>7</answer>", "duplicate"),
    (R1, "<think>a</think><answer>7</answer>\n<answer></answer>", "duplicate"),
    (R1, "<think>a</think><answer></answer>", "empty"),
    (R1, "<think>a</think><answer> \n </answer>", "empty"),
    (R1, "<think>a</think><answer>\t</answer> so", "empty"),
    (R1, "<think>a</think><answer>7</answer> done", "outside_text"),
    (R1, "<think>a</think>so <answer>7</answer>", "outside_text"),
    (R1, "<think>a</think><answer>7</answer>\n\nText\n", "outside_text"),
    (R1, "</answer></think><think><answer>", "think_not_first"),
    # the prompt opened the thoughts already
    (PREFILLED, "a</think><answer>7</answer>", "ok"),
    (PREFILLED, "<think>a</think><answer>7</answer>", "think_duplicate"),
    (PREFILLED, "</think><answer>7</answer>", "think_empty"),
    (PREFILLED, "<answer>7</answer>", "think_missing"),
    # a thought that is cut off hides what is in it
    (FREE, "<answer>7</answer>", "ok"),
    (FREE, "<think>a</think>so <answer>7</answer>", "ok"),
    (FREE, "<think>a <answer>7</answer>", "missing"),
    # one short action, no thoughts
    (ACTION, "I play <action>42; 1</action>.", "ok"),
    (ACTION, "<action>  42; 1  </action>", "ok"),
    (ACTION, "<action>42; 17</action>", "block_too_long"),
    (ACTION, "<action>123456</action>", "block_too_long"),
    (ACTION, f"<action>{'9' * 999}</action>", "block_too_long"),
    (ACTION, "<think>a</think><action>4</action>", "think_forbidden"),
    (ACTION, "a</think><action>4</action>", "think_forbidden"),
    (ACTION, "<think></think>\n<action>4</action>", "think_forbidden"),
    (ACTION, "<action>4", "unclosed"),
    # two blocks in order
    (PLAN, "<plan>go</plan> then <action>4</action>", "ok"),
    (PLAN, "<think>I cannot</think><plan>go</plan><action>4</action>", "ok"),
    (PLAN, "<action>4</action><plan>go</plan>", "order"),
    (PLAN, "so <action>4</action> and <plan>go</plan>", "order"),
    (PLAN, "<think>a</think><action>4</action>\n<plan>go</plan>", "order"),
    (PLAN, "<plan>go <action>4</action></plan>", "nested"),
    (PLAN, "<plan>go</plan><action>4</action>" + " " * 80, "too_long"),
    (PLAN, "<plan>go</plan><action>4</action>" + "x" * 48, "too_long"),
    (PLAN, f"<think>{'a' * 60}</think><plan>go</plan><action>4</action>", "too_long"),
    (PLAN, "<plan>I CANNOT</plan><action>4</action>", "forbidden_text"),
    (PLAN, "<plan>go</plan><action>4</action> as an ai", "forbidden_text"),
    (PLAN, "As an AI <plan>go</plan><action>4</action>", "forbidden_text"),
    # one box, a few words
    (BOXED, "It is \\boxed{\\frac{1}{2}}", "ok"),
    (BOXED, "<think>\\boxed{3}</think> It is \\boxed{7}", "ok"),
    (BOXED, "It is 7", "box_missing"),
    (BOXED, "It is \\boxed{7", "box_missing"),
    (BOXED, "<think>\\boxed{7}</think> It is 7", "box_missing"),
    (BOXED, "\\boxed{7} or \\boxed{8}", "box_duplicate"),
    (BOXED, "It is \\boxed{7} \\boxed{7}", "box_duplicate"),
    (BOXED, "\\boxed{1} \\boxed{2} \\boxed{3}", "box_duplicate"),
    (BOXED, "It is \\boxed{}", "box_empty"),
    (BOXED, "It is \\boxed{ }", "box_empty"),
    (BOXED, "\\boxed{\n}", "box_empty"),
    (BOXED, "\\boxed{7}", "too_few_words"),
    (BOXED, "<think>a b c</think>\\boxed{7}", "too_few_words"),
    (BOXED, " \n\\boxed{x}\n", "too_few_words"),
    (BOXED, "so it must of course be \\boxed{7}", "too_many_words"),
    (BOXED, "a b c d e f \\boxed{7}", "too_many_words"),
    (BOXED, "\\boxed{1 + 2 + 3 + 4}", "too_many_words"),
    # one code fence
    (CODE, "Here:\n```python\nx = 1\n```\n", "ok"),
    (CODE, "~~~Python\nx = '```'\n~~~", "ok"),
    (CODE, "````python\n```\n````", "ok"),
    (CODE, "```json\n{}\n```\n```python\nx\n```", "ok"),
    (CODE, "x = 1", "fence_missing"),
    (CODE, "`python`", "fence_missing"),
    (CODE, "``python\nx\n``", "fence_missing"),
    (CODE, "```python\nx = 1", "fence_unclosed"),
    (CODE, "```python\nx\n``` done", "fence_unclosed"),
    (CODE, "````python\nx\n```", "fence_unclosed"),
    (CODE, "```python\nx\n```\n```python\ny\n```", "fence_duplicate"),
    (CODE, "~~~python\nx\n~~~\n```python\nx\n```", "fence_duplicate"),
    (CODE, "```python\nx\n```\n```python\n```", "fence_duplicate"),
    (CODE, "```\nx\n```", "fence_language"),
    (CODE, "```js\nx\n```", "fence_language"),
    (CODE, "```py\nx\n```", "fence_language"),
    (CODE, "```python\n```", "fence_empty"),
    (CODE, "```python\n\n```", "fence_empty"),
    (CODE, "~~~python\n \n~~~", "fence_empty"),
]


@pytest.mark.parametrize(("spec", "reply", "reason"), LABELLED)
def test_labelled_replies(spec: FormatSpec, reply: str, reason: str) -> None:
    score = FormatChecker(spec).check(reply)
    assert score.reason == reason
    assert score.value == (1.0 if reason == "ok" else 0.0)


def test_every_reason_is_labelled_at_least_three_times() -> None:
    seen = [reason for _, _, reason in LABELLED]
    assert [reason for reason in FORMAT_REASONS if seen.count(reason) < 3] == []
    assert set(seen) == set(FORMAT_REASONS)


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
    assert FormatChecker(R1, partial=True).check(reply).value == pytest.approx(value)


PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "7",
            " ",
            "\n",
            "\\boxed{",
            "}",
            "```python\n",
        ]
    ),
    max_size=14,
).map("".join)


@given(PIECES | st.text(max_size=60), st.sampled_from([R1, PREFILLED, ACTION, PLAN, BOXED, CODE]))
def test_any_reply_gets_a_known_reason(reply: str, spec: FormatSpec) -> None:
    strict, partial = (
        FormatChecker(spec).check(reply),
        FormatChecker(spec, partial=True).check(reply),
    )
    assert strict.reason == partial.reason
    assert strict.reason in FORMAT_REASONS
    assert (strict.value == 1.0) == (partial.value == 1.0) == (strict.reason == "ok")
    assert strict.value <= partial.value <= 1.0


@given(PIECES)
def test_an_accepted_reply_is_what_was_asked_for(reply: str) -> None:
    if FormatChecker(R1).check(reply).value == 1.0:
        thought, _, rest = reply.strip().partition("</think>")
        assert thought.startswith("<think>")
        assert rest.strip().startswith("<answer>")
        assert rest.strip().endswith("</answer>")
        assert rest.count("answer>") == 2


@pytest.mark.parametrize(
    "reply",
    [
        "<think>\n" + "\n</think>\n<answer>\n" * 40_000,
        "</think>" * 125_000,
        "<answer>" * 125_000,
        "<think>" * 140_000,
        "\\boxed{" * 140_000,
        "```python\n" * 100_000,
        "`" * 1_000_000,
        "<" * 1_000_000,
        "</answer" * 125_000,
    ],
)
def test_a_megabyte_is_read_in_one_pass(reply: str) -> None:
    everything = FormatSpec(
        blocks=("answer", "plan"), think="required", boxed=True, fence="python", forbidden=("x",)
    )
    assert FormatChecker(everything).check(reply).value == 0.0


def test_blocks_inside_each_other_are_no_blocks() -> None:
    scan = scan_tags("<a>1<b>2</b></a><b>3</b>", ("a", "b"))
    assert scan.faults["a"] == scan.faults["b"] == "nested"
    assert all(block.body != "1<b>2</b>" for block in scan.blocks)


def test_a_block_closes_with_its_own_tag() -> None:
    scan = scan_tags("<a>1</b>2</a>", ("a", "b"))
    assert [block.body for block in scan.blocks] == ["1</b>2"]
    assert scan.faults == {"b": "nested"}


def test_fences_keep_their_body() -> None:
    fences, unclosed = scan_fences("a\n```Python title=x\nx = 1\n\ny\n```\nb")
    assert [(fence.language, fence.body) for fence in fences] == [("python", "x = 1\n\ny\n")]
    assert not unclosed


@pytest.mark.parametrize("spec", [R1, PREFILLED, ACTION, PLAN, BOXED, CODE])
def test_instructions_name_all_that_is_checked(spec: FormatSpec) -> None:
    text = FormatChecker(spec).instructions()
    wanted = [f"<{tag}>...</{tag}>" for tag in spec.blocks] + list(spec.forbidden)
    wanted += ["think>"] if spec.think != "optional" else []
    wanted += ["\\boxed{...}"] if spec.boxed else []
    wanted += [f"```{spec.fence}"] if spec.fence else []
    limits = (spec.max_chars, spec.max_words, spec.min_words, spec.max_block_chars)
    wanted += [f" {limit} " for limit in limits if limit]
    assert [part for part in wanted if part not in text] == []


@pytest.mark.parametrize(
    "options",
    [
        {"blocks": ("think",)},
        {"blocks": ("a b",)},
        {"blocks": ("a", "a")},
        {"blocks": "answer"},
        {"think": "always"},
        {"only_blocks": True},
        {"forbidden": ("",)},
        {"min_words": 5, "max_words": 4},
    ],
)
def test_impossible_specs_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        FormatSpec(**options)  # type: ignore[arg-type]
