"""Policy names, as people write them on the command line and in recipes.

``random``, ``bot:strong``: a bot of the environment. ``tiny``, ``smollm2-135m``, a hub id or a
folder: a language model. ``MODEL+FOLDER``: that model with the LoRA adapter in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from srl_agents.agents.players import ModelPolicy, TurnRequest, answer
from srl_agents.agents.prompt_file import read_prompt
from srl_envs import make_bot, spec
from srl_envs.errors import UnknownPolicyError, nearest

MODELS = ("tiny", "smollm2-135m")
_BOT = "bot:"
_ADAPTER = "adapter"


@dataclass(frozen=True, slots=True)
class ModelName:
    """A language model and, where it was named, its adapter."""

    model: str
    adapter_folder: Path | None


def parse_model_name(name: str) -> ModelName:
    """Split ``MODEL`` or ``MODEL+ADAPTER_FOLDER``; does not look whether they exist."""
    model, plus, folder = name.partition("+")
    return ModelName(model, Path(folder) if plus else None)


def text_policy(
    name: str, env_id: str, seat: int = 0, seed: int = 0, max_new_tokens: int | None = None
) -> Callable[[str], str]:
    """A ``text -> text`` callable for one seat.

    Args:
        name: see the module.
        env_id: the environment that will be played; bots belong to one.
        seat: keeps two seats with the same name and seed apart.
        seed: of the policy's own randomness.
        max_new_tokens: longest reply of a language model; None takes 1024 for code games, else 128.

    Raises:
        UnknownPolicyError: no bot, model, hub id or folder has this name.
        ModelError: the model cannot be fetched or loaded.
    """
    bots = spec(env_id).bots
    bot = name.removeprefix(_BOT)
    if name.startswith(_BOT) or name in bots:
        return make_bot(env_id, bot, seed=2 * seed + seat)
    wanted = parse_model_name(name)
    if not _may_exist(wanted.model):
        known = [*bots, *MODELS]
        raise UnknownPolicyError(
            f"no policy {name!r}.{nearest(name, known)} Bots of {env_id}: {', '.join(bots) or 'none'}; "
            f"models: {', '.join(MODELS)}, a hub id, a folder, or MODEL+ADAPTER_FOLDER."
        )
    return _model_policy(wanted, seat, seed, max_new_tokens or reply_budget(env_id))


def require_model(name: str) -> None:
    """Refuse a name that can be no language model, without loading or fetching anything.

    Raises:
        UnknownPolicyError: names the nearest model.
    """
    if not _may_exist(name):
        raise UnknownPolicyError(
            f"no model {name!r}.{nearest(name, MODELS)} "
            f"Models: {', '.join(MODELS)}, a hub id, or a folder."
        )


def _may_exist(model: str) -> bool:
    return model in MODELS or "/" in model or Path(model).is_dir()


def reply_budget(env_id: str) -> int:
    """Tokens that a reply to this environment may take when nobody says otherwise."""
    from srl_envs.core import Game  # noqa: PLC0415 - gymnasium comes with it
    from srl_envs.registry import load_entry_point  # noqa: PLC0415

    game = load_entry_point(spec(env_id).entry_point)
    long = isinstance(game, type) and issubclass(game, Game) and game.max_action_chars > 4096
    return 1024 if long else 128


def _model_policy(
    wanted: ModelName, seat: int, seed: int, max_new_tokens: int
) -> Callable[[str], str]:
    from srl_agents.engines.protocol import SamplingSettings  # noqa: PLC0415
    from srl_agents.engines.transformers_engine import TransformersEngine  # noqa: PLC0415
    from srl_agents.models.base_model import (  # noqa: PLC0415 - torch comes with it
        BaseModel,
        Prompt,
    )

    folder = wanted.adapter_folder
    prompt = read_prompt(Path(wanted.model) if folder is None else folder)
    rank, alpha = adapter_shape(folder)
    base = BaseModel.load(
        wanted.model, lora_rank=rank, lora_alpha=alpha, prompt=Prompt(system=prompt.system)
    )
    engine = TransformersEngine(base, SamplingSettings(max_new_tokens=max_new_tokens))
    policy = ModelPolicy(engine, examples=prompt.pairs)
    if folder is not None:
        base.load_adapter(_ADAPTER, folder)
        policy = ModelPolicy(engine, _ADAPTER, prompt.pairs)
    turn = 0

    def act(text: str) -> str:
        nonlocal turn
        turn += 1
        key = (seed, seat, turn)
        request = TurnRequest(observation=text, key=key, examples=policy.examples)
        return answer(policy.engine, [(policy.adapter, request)])[0].text

    return act


def adapter_shape(folder: Path | None) -> tuple[int, float]:
    """(rank, alpha) that the adapter was made with."""
    if folder is None:
        return 8, 16
    try:
        config = json.loads((folder / "adapter_config.json").read_text())
        return int(config["r"]), float(config["lora_alpha"])
    except (OSError, ValueError, KeyError) as error:
        raise UnknownPolicyError(
            f"{folder} is no adapter folder ({type(error).__name__}: {error}); "
            f"it must hold adapter_config.json and adapter_model.safetensors."
        ) from None
