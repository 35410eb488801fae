"""One GRPO step, split into generate, reward and train: one and two learners of SRL, and plain TRL.

    python -m benchmarks.speed.grpo_step [--rows 64] [--tokens 16] [--steps 5] [--json FILE]

Both get the same model (random weights, LoRA rank 8 on every linear layer), the same prompts
(openings of connect four), the same number of rows, groups and new tokens, the same loss (GRPO with
a KL term to the base), optimizer and reward: the reply is given to the environment, and what the
step pays is the reward. Plain TRL gets its adapter through ``peft_config``. End and stop tokens are
switched off, so every row is exactly as long as every other. CPU seconds of one torch thread; the
steps of all alternate, and the median counts. Two learners make a step each, and the seconds are per
learner, so that all three columns are of as many tokens.

Memory is the peak of a process that makes four steps in all, with one learner or with two in turn; a
second learner may cost its adapter, that adapter's gradient and the optimizer's two moments, and no
second base. The number of steps is the same, because the allocator's peak grows over the first ones
in any learner; the median of three processes each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import srl_envs
from srl_agents.credit.batches import training_batch
from srl_agents.credit.group_relative import group_advantages
from srl_agents.engines.embedded.engine import TransformersEngine
from srl_agents.engines.protocol import GenerationRequest, SamplingSettings
from srl_agents.models.base_model import BaseModel
from srl_agents.models.sources.random_model import build
from srl_agents.records import Turn
from srl_agents.trainers.grpo import GRPOLearner
from srl_agents.trainers.grpo_settings import GRPOSettings

GROUP = 8
KL = 0.02
RATE = 1e-3
PHASES = ("generate", "reward", "train")
Times = dict[str, float]


def reward_of(env: Any, seed: int, reply: str) -> float:
    """What the environment pays the first mover for one reply."""
    observations, _ = env.reset(seed=seed)
    agent = next(a for a in env.agents if observations[a]["can_act"])
    return float(env.step({agent: reply})[1][agent])


def openings(count: int) -> list[str]:
    """Texts that the first mover sees."""
    env = srl_envs.make("connect_four-v0")
    texts = []
    for seed in range(count):
        observations, _ = env.reset(seed=seed)
        texts.append(next(o["text"] for o in observations.values() if o["can_act"]))
    return texts


def ours(model: Path, rows: int, tokens: int, learners: int = 1) -> Callable[[int], Times]:
    """A function that makes one step of SRL with each learner and times its phases, per learner."""
    base = BaseModel.load(model, lora_rank=8)
    base.eos_token_ids = frozenset()
    engine = TransformersEngine(
        base, SamplingSettings(max_new_tokens=tokens, stop=()), max_batch_rows=rows
    )
    settings = GRPOSettings(learning_rate=RATE, kl_coef=KL, micro_batch_rows=rows)
    team = [
        GRPOLearner(f"learner{number}", base, settings, temperature=1.0, seed=number)
        for number in range(learners)
    ]
    env = srl_envs.make("connect_four-v0")
    texts = [text for text in openings(rows // GROUP) for _ in range(GROUP)]

    def step_of(learner: GRPOLearner, number: int) -> Times:
        clock = time.process_time()
        version = base.freeze_adapter(learner.name, learner.version)
        requests = [
            GenerationRequest(observation=text, version=version, key=(number, row))
            for row, text in enumerate(texts)
        ]
        generated = asyncio.run(engine.generate_together(requests))
        base.forget(str(version))
        after_generate = time.process_time()
        returns = [reward_of(env, row // GROUP, g.text) for row, g in enumerate(generated)]
        after_reward = time.process_time()
        returns_BG = np.array(returns).reshape(-1, GROUP)
        advantages = group_advantages(returns_BG, np.ones_like(returns_BG, dtype=bool)).ravel()
        turns = [
            Turn(
                turn_index=0, observation="", reply="", invalid=None, reward=0.0, components={},
                version=f"{learner.name}@0-0123456789abcdef",
                prompt_ids=g.prompt_ids, completion_ids=g.token_ids, logprobs=g.logprobs,
            )
            for g in generated
        ]  # fmt: skip
        rows_of_batch = list(zip(turns, advantages.tolist(), strict=True))
        learner.update(training_batch(learner.name, rows_of_batch, pad_id=0))
        assert all(len(g.token_ids) == tokens for g in generated)
        return {
            "generate": after_generate - clock,
            "reward": after_reward - after_generate,
            "train": time.process_time() - after_reward,
        }

    def step(number: int) -> Times:
        times = [step_of(learner, number) for learner in team]
        return {phase: statistics.fmean(t[phase] for t in times) for phase in PHASES}

    return step


def plain_trl(model: Path, rows: int, tokens: int) -> Callable[[int], Times]:
    """A function that makes one step of TRL's own trainer and times its phases."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_pretrained(model)
    network.generation_config.eos_token_id = None
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    env = srl_envs.make("connect_four-v0")
    texts = openings(rows // GROUP)
    seeds = {text: seed for seed, text in enumerate(texts)}

    def reward(prompts: list[Any], completions: list[Any], **_: Any) -> list[float]:
        return [
            reward_of(env, seeds[prompt[0]["content"]], completion[0]["content"])
            for prompt, completion in zip(prompts, completions, strict=True)
        ]

    folder = tempfile.mkdtemp()
    config = GRPOConfig(
        output_dir=folder, per_device_train_batch_size=rows, num_generations=GROUP,
        max_completion_length=tokens, learning_rate=RATE, beta=KL, temperature=1.0,
        loss_type="dapo", scale_rewards="none", optim="adamw_torch", gradient_checkpointing=False,
        bf16=False, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no",
        logging_strategy="no", max_steps=10**6, lr_scheduler_type="constant",
        generation_kwargs={"eos_token_id": None},
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=network,
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": text}]} for text in texts]
        ),
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
    )
    spent: Times = {}
    _time_method(trainer, "_generate", "generate", spent)
    _time_method(trainer, "_calculate_rewards", "reward", spent)
    steps = _endless_training(trainer, spent)
    return lambda _number: next(steps)


def _time_method(trainer: Any, method: str, phase: str, spent: Times) -> None:
    original = getattr(trainer, method)

    def timed(*args: Any, **kwargs: Any) -> Any:
        clock = time.process_time()
        result = original(*args, **kwargs)
        spent[phase] = spent.get(phase, 0.0) + time.process_time() - clock
        return result

    setattr(trainer, method, timed)


def _endless_training(trainer: Any, spent: Times) -> Iterator[Times]:
    """One item per optimizer step, made by TRL's own parts in the order of its loop."""
    trainer.create_optimizer_and_scheduler(num_training_steps=10**6)
    trainer.current_gradient_accumulation_steps = 1
    loader: Iterator[Any] = iter(())
    while True:
        spent.clear()
        clock = time.process_time()
        try:
            inputs = next(loader)
        except StopIteration:
            loader = iter(trainer.get_train_dataloader())
            inputs = next(loader)
        trainer.training_step(trainer.model, inputs, None)
        torch.nn.utils.clip_grad_norm_(
            [p for p in trainer.model.parameters() if p.requires_grad], 1.0
        )
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
        trainer.optimizer.zero_grad()
        trainer._step += 1
        total = time.process_time() - clock
        yield {**spent, "train": total - spent["generate"] - spent["reward"]}


@contextmanager
def _model_folder(hidden: int, layers: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield build(Path(folder) / "model", hidden=hidden, layers=layers)


_STEPS, _PROCESSES = 4, 3


def peak_mib(options: argparse.Namespace, model: Path, learners: int) -> float:
    """Median MiB of fresh processes that make `_STEPS` with so many learners; 0 loads only the base."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.grpo_step"]
    for name in ("rows", "tokens"):
        command += [f"--{name}", str(getattr(options, name))]
    command += ["--peak-of", str(model), "--learners", str(learners)]
    peaks = []
    for _ in range(_PROCESSES):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout.splitlines()[-1]))
    return statistics.median(peaks)


def learner_mib(model: Path) -> float:
    """An adapter in float32, its gradient and AdamW's two moments."""
    base = BaseModel.load(model, lora_rank=8)
    base.add_adapter("learner", 0)
    numbers = sum(p.numel() for p in base.trainable_parameters("learner").values())
    return 4 * 4 * numbers / 2**20


def _make_steps(options: argparse.Namespace) -> None:
    if options.learners:
        step = ours(Path(options.peak_of), options.rows, options.tokens, options.learners)
        for number in range(_STEPS // options.learners):
            step(number)
    else:
        BaseModel.load(options.peak_of, lora_rank=8)
    status = Path("/proc/self/status").read_text()  # getrusage would tell the parent's peak, too
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


def main() -> None:
    """Print a table of medians and ratios, and one of memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=64, help=f"replies per step, a multiple of {GROUP}"
    )
    parser.add_argument("--tokens", type=int, default=16, help="new tokens per reply")
    parser.add_argument("--steps", type=int, default=5, help="timed steps, after one to warm up")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    parser.add_argument("--learners", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak_of:
        _make_steps(options)
        return
    with _model_folder(options.hidden, options.layers) as model:
        contestants = {
            "SRL": ours(model, options.rows, options.tokens),
            "SRL, two": ours(model, options.rows, options.tokens, learners=2),
            "TRL": plain_trl(model, options.rows, options.tokens),
        }
        times: dict[str, list[Times]] = {name: [] for name in contestants}
        for number in range(options.steps + 1):
            for name, step in contestants.items():
                measured = step(number)
                if number:
                    times[name].append(measured)
        memory = {str(n): peak_mib(options, model, n) for n in (0, 1, 2)}
        memory["one learner's tensors"] = learner_mib(model)
    medians = {
        name: {phase: statistics.median(t[phase] for t in measured) for phase in PHASES}
        for name, measured in times.items()
    }
    print(f"{options.rows} rows x {options.tokens} new tokens, CPU seconds per step (median)")
    print(
        f"{'':10}"
        + "".join(f"{name:>12}" for name in medians)
        + f"{'SRL / TRL':>12}{'two / TRL':>12}"
    )
    for phase in (*PHASES, "total"):
        row = [sum(m.values()) if phase == "total" else m[phase] for m in medians.values()]
        ratios = "".join(f"{value / row[-1]:12.2f}" for value in row[:-1])
        print(f"{phase:10}" + "".join(f"{value:12.3f}" for value in row) + ratios)
    print("peak MiB: " + ", ".join(f"{name}: {value:.1f}" for name, value in memory.items()))
    if options.json:
        result = {**medians, "peak_mib": memory}
        Path(options.json).write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
