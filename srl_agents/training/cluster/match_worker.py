"""One of many processes that play: its own base, engine and environments, no folder of a run, no league.

It receives versions to install and matches to play, and returns matches as the buffer keeps them. Its
caller, such as `srl_agents.training.cluster.dispatch`, decides what is played where; this module does not
use Ray.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from srl_agents.agents import ModelPolicy, Policy, ScriptedPolicy
from srl_agents.interrupts import EventLoop
from srl_agents.league.matchmaking.manager import BOT
from srl_agents.own_folders import scratch
from srl_agents.recipes.sections.games import bots_of
from srl_agents.recipes.settings import LeagueRecipe
from srl_agents.records import Episode, MatchSpec, WeightUpdate, WeightVersion
from srl_agents.rollouts import Rollouts
from srl_agents.rollouts.buffer import frames_of
from srl_agents.training.bases import LoadedBase, PlayingBase, site_of
from srl_agents.training.parts.single import load_bases, make_engine
from srl_agents.transports.shared import SharedTransport
from srl_agents.transports.updates import DTYPES
from srl_envs.reading.settings import build

_TYPES = {spelled: dtype for dtype, spelled in DTYPES.items()}
Arrays = dict[str, NDArray[np.uint8]]
"""Tensors of a version as bytes, by name; types and shapes are in its `WeightUpdate`."""


def to_arrays(tensors: Mapping[str, torch.Tensor]) -> Arrays:
    """Tensors as their bytes, which numpy and every object store know."""
    return {
        name: tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8).numpy()
        for name, tensor in tensors.items()
    }


def from_arrays(update: WeightUpdate, arrays: Arrays) -> dict[str, torch.Tensor]:
    """The tensors of an update from their bytes; copies, as stores of objects lend theirs to read only."""
    return {
        header.name: torch.from_numpy(np.array(arrays[header.name]))
        .view(_TYPES[header.dtype])
        .reshape(header.shape)
        for header in update.tensors
    }


class MatchWorker:
    """Plays parts of orders.

    Args:
        recipe: of the run, as plain values.
    """

    def __init__(self, recipe: dict[str, Any]) -> None:
        self._recipe = recipe
        self._opened = ExitStack()

    def open(self) -> dict[str, Any]:
        """Load what it needs.

        Returns:
            Who it is, once it can play: process, host, threads.

        Raises:
            SRLError: something cannot be loaded or does not fit.
        """
        own = build(LeagueRecipe, self._recipe, "recipe of the run")
        folder = self._opened.enter_context(scratch("worker"))
        self._weights = SharedTransport()
        self._loop = EventLoop()
        self._opened.callback(self._loop.close)
        bases = tuple(self._playing(own, base, folder) for base in load_bases(own))
        self._bases = bases
        self._policies: dict[str, Policy] = {base.name: ModelPolicy(base.engine) for base in bases}
        self._policies |= {f"{BOT}{bot}": ScriptedPolicy(bot) for bot in bots_of(own.games)}
        self._drawn_as = {base.name: base.name for base in bases}
        self._installed: dict[str, WeightVersion] = {}
        self._rollouts = self._opened.enter_context(
            Rollouts(
                self._policies,
                root_seed=own.seed,
                order=own.rollout.order,
                concurrency=own.rollout.concurrency,
                contents=self._drawn_as,
                references=own.judges_answers,
                loop=self._loop,
            )
        )

        return {
            "pid": os.getpid(),
            "host": os.uname().nodename,
            "threads": torch.get_num_threads(),
            "omp_num_threads": os.environ.get("OMP_NUM_THREADS", ""),
        }

    def install(
        self, updates: Sequence[WeightUpdate], keep: Collection[str], *arrays: Arrays
    ) -> None:
        """Have these versions, and of the others those that are kept.

        Args:
            updates: new versions.
            keep: ids of the versions that may be asked for.
            *arrays: bytes of the updates, in their order.

        Raises:
            ModelError: bytes are not those of their version, down to the last bit.
        """
        for name in [name for name in self._installed if name not in keep]:
            version = self._installed.pop(name)
            self._loop.run(site_of(self._bases, version.learner).engine.retire(version))
            self._policies.pop(name, None)
            self._drawn_as.pop(name, None)
        for update, own in zip(updates, arrays, strict=True):
            held = self._weights.publish(
                update.version, from_arrays(update, own), update.previous, update.shown
            )
            engine = site_of(self._bases, update.version.learner).engine
            self._loop.run(engine.install(replace(held, logprobs=update.logprobs)))
            self._weights.release(update.version)
            name = str(update.version)
            self._installed[name] = update.version
            self._policies[name] = ModelPolicy(engine, update.version, update.shown)
            self._drawn_as[name] = update.version.label

    def play(self, specs: Sequence[MatchSpec], parents: Mapping[str, Episode]) -> bytes:
        """Play matches together, to the last one.

        Args:
            specs: of the matches.
            parents: match id -> episode, of the matches that branches among the specs leave.

        Returns:
            `srl_agents.rollouts.buffer.frames_of` the matches.
        """
        return frames_of(self._rollouts.play(specs, parents=parents))

    def close(self) -> None:
        """Close the engines and models of this worker."""
        self._opened.close()

    def _playing(self, recipe: LeagueRecipe, base: LoadedBase, folder: Path) -> PlayingBase:
        """A base with the engine that samples its versions on this worker."""
        engine = make_engine(recipe, base, self._weights, folder, base.settings.engine)
        self._opened.callback(lambda: self._loop.run(engine.close()))
        return PlayingBase(
            settings=base.settings,
            model=base.model,
            engine=engine,
            transport=self._weights,
            played=base.model,
        )
