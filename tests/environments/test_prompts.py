"""`python -m benchmarks.environments.prompts` writes what players read."""

import html

import pytest

import srl_envs
from benchmarks.environments import pages, prompts
from benchmarks.environments.prompts import FIRST, MIDDLE, REFUSED, Prompt

CASES = [
    pytest.param(spec, marks=[pytest.mark.slow] if spec.runs_programs else [], id=spec.id)
    for spec in pages.built_in()
]
STALE = "run `python -m benchmarks.environments.prompts` and commit benchmarks/results/prompt_tokens.json"


@pytest.mark.parametrize("spec", CASES)
def test_every_prompt_is_counted_and_on_both_pages(spec: srl_envs.registry.EnvSpec) -> None:
    shown = prompts.prompts(spec)
    counts = prompts.recorded()
    assert all(counts[prompt.name].keys() == set(prompts.TOKENIZERS) for prompt in shown), STALE
    text, beside = (
        prompts.page({spec.id: shown}, counts),
        prompts.web_page({spec.id: shown}, counts),
    )
    for prompt in shown:
        lines = [line.rstrip() for line in prompt.text.strip("\n").splitlines()]
        assert "\n".join(lines) in text
        assert html.escape(prompt.text.strip("\n")) in beside


def test_every_seat_is_shown_once_and_the_other_moments_as_well() -> None:
    shown = prompts.prompts(srl_envs.spec("commons-v1"))
    assert [p.seat for p in shown if p.moment == FIRST] == [0, 1, 2, 3]
    assert [p.moment for p in shown[4:]] == [MIDDLE, REFUSED]
    texts = {p.moment: p.text for p in shown}
    assert "not accepted" in texts[REFUSED]
    assert "not accepted" not in texts[MIDDLE]
    assert len({p.text for p in shown}) == len(shown)


def test_lengths_of_an_absent_tokenizer_are_taken_from_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("tokenizers")
    old, new = Prompt(FIRST, 0, "as it was"), Prompt(FIRST, 1, "new <b>")
    monkeypatch.setattr(prompts, "tokenizer_files", dict)
    counts = prompts.count([old, new], {old.name: {"tiny": 3, "smollm2-135m": 4}})
    assert prompts.lengths([old], counts) == "3 / 4"
    assert prompts.lengths([new], counts) == "– / –"
    assert "new &lt;b&gt;" in prompts.web_page({"x-v0": [new]}, counts)
