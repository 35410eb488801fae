"""Our environments under TRL's ``environment_factory``."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import srl_envs
from srl_envs.adapters.trl import TRLGame, environment_factory, rows
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, SandboxError
from srl_envs.parallel import GameEnv
from srl_envs.turns.grammar import action
from tests.srl_envs.adapters import neighbours_guide

TINY = Path(__file__).parents[3] / "srl_agents/models/tiny"


def connect_four(**options: Any) -> TRLGame:
    return environment_factory("connect_four-v0", opponents={1: "strong"}, **options)()


def play_out(game: TRLGame, moves: Any) -> str:
    text = ""
    for move in moves:
        text = game.act(move)
    return text


def test_a_game_pays_what_the_single_view_pays() -> None:
    game = connect_four()
    view = srl_envs.make_single("connect_four-v0", opponents={1: "strong"})
    text = game.reset(seed=3)
    seen, _ = view.reset(seed=3)
    assert text.endswith(seen["text"])
    total, over = 0.0, False
    for column in "4444443333332222221111115555556666667777777":
        reply = game.act(column)
        seen, reward, over, _, _ = view.step(action(column))
        total += reward
        assert reply.startswith(seen["text"])
        if over:
            break
    assert over
    assert game.get_reward() == total
    assert "over" in game.act("4")
    assert game.get_reward() == total


def test_the_same_seed_is_the_same_episode_and_instances_are_used_again() -> None:
    first, second = connect_four(), connect_four()
    texts = [(game.reset(seed=9), game.act("4"), game.act("1")) for game in (first, second)]
    assert texts[0] == texts[1]
    first.reset(seed=1)
    assert (first.reset(seed=9), first.act("4"), first.act("1")) == texts[0]
    assert first.get_reward() == -1.0  # nothing is left of the earlier episodes


def test_a_model_that_stops_forfeits_and_keeps_what_was_paid() -> None:
    game = connect_four()
    game.reset(seed=3)
    assert game.get_reward() == -1.0
    game.act("nonsense")
    game.act("4")
    assert game.get_reward() == pytest.approx(-1.05)  # the earlier cost is kept

    rounds = environment_factory("iterated_dilemma-v0", opponents={1: "middle"})()
    rounds.reset(seed=2)
    left = srl_envs.make_single("iterated_dilemma-v0", opponents={1: "middle"})
    left.reset(seed=2)
    rounds.act("A")
    left.step(action("A"))
    state = left.env.game.decode(left.env.get_state()["state"])
    assert rounds.get_reward() == pytest.approx(left.env.game.forfeit(state, 0)[0])


def test_the_tool_takes_a_body_or_a_whole_block() -> None:
    game = connect_four()
    game.reset(seed=3)
    bare = game.act("4")
    game.reset(seed=3)
    assert game.act("<action>4</action>") == bare
    game.reset(seed=3)
    assert "not accepted" in game.act("</action>")


def test_a_row_without_a_seed_is_refused_and_rows_have_one() -> None:
    with pytest.raises(ConfigError, match="column `seed`"):
        connect_four().reset(prompt=[])
    data = rows(range(2), split="eval", system="Be brief.")
    assert [row["seed"] for row in data] == [0, 1]
    assert [message["role"] for message in data[0]["prompt"]] == ["system", "user"]
    train, held_back = (connect_four() for _ in range(2))
    texts = {train.reset(seed=s) == held_back.reset(**{**data[0], "seed": s}) for s in range(8)}
    assert False in texts  # another split, another instance


def test_our_own_failure_is_no_reward_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    game = connect_four()
    game.reset(seed=3)

    def broken(self: GameEnv, actions: Any) -> Any:
        raise SandboxError("gone")

    monkeypatch.setattr(GameEnv, "advance", broken)
    assert "no fault of yours" in game.act("4")
    assert game.get_reward() is None
    monkeypatch.undo()
    game.reset(seed=3)
    assert game.get_reward() == -1.0


def test_a_factory_survives_pickling_and_fails_early() -> None:
    factory = pickle.loads(pickle.dumps(environment_factory("nim-v0", opponents={1: "strong"})))
    same = environment_factory("nim-v0", opponents={1: "strong"})
    assert factory().reset(seed=1) == same().reset(seed=1)
    with pytest.raises(ConfigError, match="seat=5"):
        environment_factory("nim-v0", seat=5)
    with pytest.raises(ConfigError, match="no option"):
        environment_factory("nim-v0", heap=3)


def test_the_example_of_the_guide_runs() -> None:
    (code,) = neighbours_guide.examples("TRL")
    assert neighbours_guide.run(code)["game"].get_reward() == -1.0


def test_no_tensor_library_is_imported() -> None:
    program = (
        "import sys; from srl_envs.adapters.trl import environment_factory; "
        "environment_factory('nim-v0')().reset(seed=0); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'trl')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_act_is_the_only_tool() -> None:
    public = {
        name
        for name, _ in inspect.getmembers(TRLGame, predicate=inspect.isfunction)
        if not name.startswith("_")
    }
    assert public == {"reset", "get_reward", "act"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of TRL, transformers and torch, about themselves
def test_one_real_step_of_trls_trainer_plays_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replies are scripted, one attempt plays and one is silent; all else is TRL's own."""
    reason = f"the training packages are not installed: {install_command('train')}"
    pytest.importorskip("trl", reason=reason)
    transformers = pytest.importorskip("transformers", reason=reason)
    datasets = pytest.importorskip("datasets", reason=reason)
    from transformers.utils import get_json_schema
    from trl import GRPOConfig, GRPOTrainer
    from trl.chat_template_utils import qwen3_chat_template

    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    schema = get_json_schema(connect_four().act)["function"]
    assert schema["name"] == "act"
    assert schema["parameters"]["required"] == ["action"]

    tokenizer = transformers.AutoTokenizer.from_pretrained(TINY)
    model = transformers.AutoModelForCausalLM.from_pretrained(TINY)
    tokenizer.chat_template = qwen3_chat_template  # the tiny model's own renders no tools
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    model.resize_token_embeddings(len(tokenizer))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    call = '<tool_call>\n{"name": "act", "arguments": {"action": "A"}}\n</tool_call><|im_end|>'
    rewards: list[float] = []
    prompts: list[str] = []

    class Scripted(GRPOTrainer):
        """Only what is sampled is replaced."""

        def _generate_single_turn(self, prompt_ids: Any, *args: Any, **kwargs: Any) -> Any:
            texts = tokenizer.batch_decode(prompt_ids)
            prompts.extend(texts)
            first = len(prompt_ids) == 2
            said = ["Enough.<|im_end|>" if first and i else call for i in range(len(prompt_ids))]
            ids = [tokenizer.encode(text, add_special_tokens=False) for text in said]
            return ids, None

    def watch(environments: list[TRLGame], **_: Any) -> list[float]:
        rewards.extend(float(game.get_reward() or 0.0) for game in environments)
        return [0.0] * len(environments)

    trainer = Scripted(
        model=model,
        processing_class=tokenizer,
        reward_funcs=[watch],
        train_dataset=datasets.Dataset.from_list(rows([5])),
        environment_factory=environment_factory("iterated_dilemma-v0", rounds=1, talk=False),
        args=GRPOConfig(
            output_dir=str(tmp_path), max_steps=1, num_generations=2, per_device_train_batch_size=2,
            max_completion_length=100_000, learning_rate=1e-2, report_to=[], use_cpu=True, bf16=False,
            save_strategy="no", logging_steps=1, max_tool_calling_iterations=1,
        ),
    )  # fmt: skip
    trainer.train()
    assert len(rewards) == 2
    assert rewards[0] >= 0.0 > rewards[1]  # the silent attempt forfeits
    log = next(line for line in trainer.state.log_history if "tools/call_frequency" in line)
    assert log["tools/failure_frequency"] == 0.0
    assert log["tools/call_frequency"] > 0
    assert "rewards/TRLGame/mean" in log
    assert "calling the tool `act`" in prompts[0]
    assert "<tool_response>" in prompts[-1]
    changed = [n for n, value in model.named_parameters() if not value.equal(before[n])]
    assert changed
