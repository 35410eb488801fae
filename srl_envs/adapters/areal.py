"""Our environments as an agent workflow of AReaL: its policy takes one seat, several or all.

How the concepts map:

=========================  =======================================================================
AReaL                      here
=========================  =======================================================================
agent workflow             `SRLAgent`: one environment with its options and opponents
row of the data set        a seed and a split; all samples of a group meet the same deal
session of the proxy       one episode, with the conversations of all seats that have no opponent
completion                 one reply: every user turn is the whole of what the seat sees
reward of a completion     ``outcome + format`` that its own seat was paid from this reply on
=========================  =======================================================================

    trainer.train(
        workflow="srl_envs.adapters.areal.SRLAgent",
        workflow_kwargs={"env_id": "connect_four-v0", "opponents": {1: "middle"}},
    )

Rewards. AReaL adds to every reward of a session the discounted rewards of all later completions, which
would pay one seat what another earned. What `SRLAgent` hands in is therefore the difference that comes
out as each seat's own return; for that it must know AReaL's ``turn_discount`` and ``export_style``.

Limits. Seats that move at once are asked one after another, in the order that AReaL's sum needs; none sees
another's reply. A failure, ours or of AReaL's proxy (a conversation too long for the engine included),
is an exception, for which AReaL leaves out the episode.

Source: ``OpenAIProxyWorkflow``, ``InteractionCache`` and ``AgentConfig`` of areal 1.0. AReaL itself is not
imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from srl_envs.adapters.asked_episode import AskedEpisode
from srl_envs.adapters.deal_seeds import deal_seeds
from srl_envs.api.making import make
from srl_envs.core import Split
from srl_envs.errors import ConfigError, NeighbourError
from srl_envs.parallel import GameEnv
from srl_envs.redaction import Redactor
from srl_envs.registry import Policy
from srl_envs.turns.seating import require_opponents


class SRLAgent:
    """Plays the row's episode through AReaL's proxy; one instance serves all rows.

    Args:
        env_id: a registered id.
        opponents: seat -> bot name, or a ``text -> text`` callable, picklable for ``mode: subproc``.
            AReaL's policy plays all other seats.
        options: as in `srl_envs.make`.
        turn_discount: AReaL's ``agent.turn_discount``.
        export_style: AReaL's ``agent.export_style``. With "concat" AReaL keeps the last completion of a
            conversation only, so that one gets the whole reward of its seat.
        **sampling: of every request, such as ``temperature`` or ``max_completion_tokens``.

    Raises:
        UnknownEnvironmentError: no such id.
        UnknownPolicyError: an opponent is not a bot of the environment.
        ConfigError: a seat, an option or a setting is wrong, or every seat has an opponent.
    """

    def __init__(
        self,
        env_id: str,
        *,
        opponents: Mapping[int, str | Policy] | None = None,
        options: Mapping[str, Any] | None = None,
        turn_discount: float = 1.0,
        export_style: Literal["individual", "concat"] = "individual",
        **sampling: Any,
    ) -> None:
        if not isinstance(turn_discount, int | float) or not 0 < turn_discount <= 1:
            raise ConfigError(
                f"turn_discount={turn_discount!r}: give AReaL's, above 0 and at most 1."
            )
        if export_style not in ("individual", "concat"):
            raise ConfigError(f"export_style={export_style!r}: give 'individual' or 'concat'.")
        if not isinstance(opponents, Mapping | None):
            raise ConfigError(f"opponents={opponents!r}: give {{seat: policy}}.")
        self._env_id, self._options = env_id, dict(options or {})
        self._opponents = {_seat(key): policy for key, policy in (opponents or {}).items()}
        self._discount, self._style, self._sampling = turn_discount, export_style, sampling
        env = make(env_id, **self._options)
        require_opponents(env, self._opponents)
        if len(self._opponents) == len(env.possible_agents):
            raise ConfigError(
                f"every seat of {env_id} has an opponent: leave one to AReaL's policy."
            )
        env.close()

    async def run(self, data: Mapping[str, Any], **areal: Any) -> dict[str, float]:
        """One episode.

        Args:
            data: a row, see `rows`.
            **areal: ``base_url``, ``api_key`` and ``http_client`` of the proxy; without them those of the
                environment (``OPENAI_BASE_URL``, ``OPENAI_API_KEY``), which AReaL sets in a subprocess.

        Returns:
            Id of each completion -> what AReaL is to add up, see the module.

        Raises:
            ConfigError: the row has no seed, or no proxy is configured.
            NeighbourError: the proxy refused a request.
        """
        if data.get("seed") is None:
            raise ConfigError(
                "the row has no column `seed` (see srl_envs.adapters.areal.rows): without it the samples "
                "of one group would play different deals."
            )
        env = make(self._env_id, **self._options)
        try:
            async with _requests(areal) as ask:
                said = await self._play(env, data, ask)
        finally:
            env.close()
        return handed_in(said, discount=self._discount, whole=self._style == "concat")

    async def _play(self, env: GameEnv, row: Mapping[str, Any], ask: _Requests) -> list[Completion]:
        asked = [s for s in range(len(env.possible_agents)) if s not in self._opponents]
        episode = await asyncio.to_thread(
            AskedEpisode,
            env,
            asked=asked,
            opponents=self._opponents,
            seed=int(row["seed"]),
            split=row.get("split") or "train",
        )
        talks: dict[int, list[dict[str, Any]]] = {seat: [] for seat in asked}
        said: list[Completion] = []
        before: list[float] = []  # what its seat had been paid when a reply was asked for
        while episode.waiting:
            seat, text = episode.waiting
            before.append(episode.paid[seat] if talks[seat] else 0.0)
            talks[seat].append({"role": "user", "content": text})
            named, message = await ask.completion(talks[seat], self._sampling)
            talks[seat].append(message)
            said.append(Completion(named, seat))
            await asyncio.to_thread(episode.reply, str(message.get("content") or ""))
        later = list(episode.paid)
        for one, had in zip(reversed(said), reversed(before), strict=True):
            one.paid, later[one.seat] = later[one.seat] - had, had
        return said


@dataclass(slots=True)
class Completion:
    """One reply, in the order of asking."""

    id: str
    seat: int
    paid: float = 0.0
    """What its seat was paid between it and the seat's next reply."""


def handed_in(said: list[Completion], *, discount: float, whole: bool) -> dict[str, float]:
    """Rewards from which AReaL's sum over a session makes each seat's own return.

    Args:
        said: all replies of the session.
        discount: by which AReaL multiplies what later completions earn.
        whole: a seat's last reply is to have all that the seat was paid, not what it was paid from then on.
    """
    returns: dict[int, float] = {}
    wanted: list[float] = []
    for one in reversed(said):
        last = one.seat not in returns
        returns[one.seat] = one.paid + discount * returns.get(one.seat, 0.0)
        everything = sum(other.paid for other in said if other.seat == one.seat)
        wanted.append(everything if whole and last else returns[one.seat])
    wanted.reverse()
    later = [*wanted, 0.0][1:]
    return {
        one.id: want - discount * after
        for one, want, after in zip(said, wanted, later, strict=True)
    }


def rows(seeds: Iterable[int], *, split: Split = "train") -> list[dict[str, Any]]:
    """Rows for AReaL's data set: one start state each, ``datasets.Dataset.from_list(rows(range(100)))``.

    Args:
        seeds: of the episodes.
        split: "train" and "eval" never draw the same instance where the game's ``spec.held_out``.

    Raises:
        ConfigError: the list of seeds is empty, or one is not a whole number.
    """
    return [{"seed": seed, "split": split} for seed in deal_seeds(seeds)]


@dataclass(frozen=True, slots=True)
class _Requests:
    """The proxy of one session."""

    client: Any
    url: str
    key: str

    async def completion(
        self, messages: list[dict[str, Any]], sampling: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Its id, and the message as AReaL finds it again in the next request."""
        body = {"model": "default", "messages": messages, **sampling}
        head = {"Authorization": f"Bearer {self.key}"}
        reply = await self.client.post(self.url, json=body, headers=head)
        text = Redactor(self.key).hide(reply.text)
        if reply.status_code != 200:
            raise NeighbourError(f"AReaL's proxy answers {reply.status_code}: {text[:500]}")
        made = json.loads(text)
        message = made["choices"][0]["message"]
        return made["id"], {key: value for key, value in message.items() if value is not None}


@contextlib.asynccontextmanager
async def _requests(given: Mapping[str, Any]) -> AsyncIterator[_Requests]:
    base = given.get("base_url") or os.environ.get("OPENAI_BASE_URL", "")
    key = given.get("api_key") or os.environ.get("OPENAI_API_KEY", "")
    if not base or not key:
        raise ConfigError(
            "no proxy is configured: AReaL gives base_url and api_key, or sets OPENAI_BASE_URL and "
            "OPENAI_API_KEY in a subprocess."
        )
    url = base.rstrip("/") + "/chat/completions"
    if given.get("http_client") is not None:
        yield _Requests(given["http_client"], url, key)
        return
    import httpx  # noqa: PLC0415 - comes with AReaL

    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        yield _Requests(client, url, key)


def _seat(key: object) -> Any:
    """A seat's number, also of a configuration file, whose keys are texts."""
    return int(key) if isinstance(key, str) and key.isdecimal() else key
