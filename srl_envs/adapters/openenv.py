"""Our environments as servers of OpenEnv: one seat over WebSocket, the others played by bots.

How the concepts map:

=========================  =======================================================================
OpenEnv                    here
=========================  =======================================================================
session                    one seat of an environment of its own
``reset(seed=, split=)``   starts an episode; without a seed, the next of the session's own stream
action ``message``         one whole reply, thoughts and all; our grammar finds the action block
observation                ``text`` and ``can_act`` as the seat sees them, ``invalid``,
                           ``attempts_left``, ``legal_actions`` (where they can be listed), at the end
                           ``statistics`` and ``forfeited``
``reward``                 ``outcome + format`` of the step, its parts in ``reward_components``; None
                           after a reset
``done``                   the episode ended
``state``                  which episode it is, and how many replies were read
=========================  =======================================================================

Limits. OpenEnv has one agent per session, so the other seats are bots of the environment or make
random legal moves. Its plain HTTP routes ``/reset`` and ``/step`` make a new environment for every
request and close it again (``HTTPEnvServer.register_routes``), so an episode lives only in a WebSocket
session; ``/step`` over HTTP fails with 500. Where our machinery fails, the session gets an error in
place of a reward: the episode is void, and the client should reset. A reward may be negative, which
the manifest's ``reward.range`` should say.

Source: OpenEnv 0.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srl_envs import registry
from srl_envs.api import making
from srl_envs.core import Split
from srl_envs.distribution import install_command
from srl_envs.errors import ConfigError, EpisodeOverError
from srl_envs.views.single import GameSingle

try:
    from openenv.core.client_types import StepResult
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
    from pydantic import Field
except ImportError as error:
    raise ConfigError(
        f"OpenEnv 0.10 or newer is needed: {install_command('openenv')} ({error})."
    ) from None


class SRLAction(Action):
    """One reply."""

    message: str
    """The whole text of the model; its action block is found by our reply grammar."""


class SRLObservation(Observation):
    """What the seat sees; ``reward`` and ``done`` are OpenEnv's own fields."""

    text: str = ""
    can_act: bool = True
    invalid: str | None = None
    """Verdict on the last reply: None, ``malformed`` or ``illegal``."""
    attempts_left: int = 0
    legal_actions: list[str] = Field(default_factory=list)
    """Whole replies, each a legal ``message``; empty where they cannot be listed."""
    reward_components: dict[str, float] = Field(default_factory=dict)
    statistics: dict[str, float] = Field(default_factory=dict)
    """The game's own numbers, at the end."""
    forfeited: bool = False


class SRLState(State):
    """Which episode a session plays."""

    env_id: str = ""
    seat: int = 0
    seed: int | None = None
    split: str = ""


class SRLEnvironment(Environment[SRLAction, SRLObservation, SRLState]):
    """One seat of one environment.

    Args:
        env_id: a registered id.
        seat: the client's seat.
        bots: seat -> bot of the environment; seats that are not named make random legal moves.
        options: as in `srl_envs.make`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        env_id: str,
        *,
        seat: int = 0,
        bots: Mapping[int, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._spec = registry.spec(env_id)
        self._view = GameSingle(
            making.make(env_id, **(options or {})), seat=seat, opponents=dict(bots or {})
        )
        self._state = SRLState(env_id=self._spec.id, seat=seat)
        self._live = False

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        split: Split | None = None,
        **kwargs: Any,
    ) -> SRLObservation:
        """Start an episode.

        Args:
            seed: of the episode; None draws the next one.
            episode_id: kept in the state.
            split: "train" or "eval"; None keeps the environment's own.
            **kwargs: refused, so that a misspelt one does not pass unnoticed.

        Raises:
            ConfigError: an unknown argument.
        """
        if kwargs:
            raise ConfigError(
                f"reset has no argument {next(iter(kwargs))!r}; it takes seed, split."
            )
        seen, info = self._view.reset(seed=seed, options={"split": split} if split else None)
        env = self._view.env
        self._state = SRLState(
            episode_id=episode_id, env_id=self._spec.id, seat=self._view.seat, seed=env.seed,
            split=env.split,
        )  # fmt: skip
        self._live = True
        return _observation(seen, info)

    def step(
        self, action: SRLAction, timeout_s: float | None = None, **kwargs: Any
    ) -> SRLObservation:
        """Give one reply; the others reply too, until it is the seat's turn or the end.

        Raises:
            EpisodeOverError: nothing is running: reset first.
            SandboxError: our machinery failed; the episode is void.
        """
        if not self._live:
            raise EpisodeOverError(
                "no episode is running in this session: reset it (plain HTTP has no sessions)."
            )
        self._live = False  # a failure leaves a void episode, which must not go on
        seen, reward, terminated, truncated, info = self._view.step(action.message)
        self._live = not (terminated or truncated)
        self._state.step_count += 1
        return _observation(seen, info, reward=reward, done=not self._live)

    @property
    def state(self) -> SRLState:
        """Which episode it is."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Name, description and version for catalogues."""
        return EnvironmentMetadata(
            name=self._spec.id,
            description=self._spec.summary or self._spec.id,
            version=f"{self._spec.version}.0.0",
        )

    def close(self) -> None:
        """Release the game's resources."""
        self._view.close()


def create_server(
    env_id: str,
    *,
    seat: int = 0,
    bots: Mapping[int, str] | None = None,
    max_sessions: int = 64,
    **options: Any,
) -> Any:
    """The ASGI application (FastAPI's), for ``uvicorn module:app``.

    Args:
        env_id: a registered id.
        seat: the seat that clients play.
        bots: seat -> bot of the environment.
        max_sessions: clients at the same time.
        **options: as in `srl_envs.make`.

    Raises:
        ConfigError: a seat, a bot or an option is wrong.
    """
    from openenv.core.env_server.http_server import (  # noqa: PLC0415 - clients need no server
        create_fastapi_app,
    )

    def session() -> SRLEnvironment:
        return SRLEnvironment(env_id, seat=seat, bots=bots, options=options)

    session().close()  # what is wrong fails here, not when the first client comes
    return create_fastapi_app(
        session,
        SRLAction,
        SRLObservation,
        max_concurrent_envs=max_sessions,
        env_name=registry.spec(env_id).name,
        state_cls=SRLState,
    )


class SRLClient(EnvClient[SRLAction, SRLObservation, SRLState]):
    """Typed client: ``with SRLClient(base_url=...).sync() as env: env.reset(seed=7)``."""

    def _step_payload(self, action: SRLAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[SRLObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done"))
        seen = SRLObservation(**{**payload["observation"], "reward": reward, "done": done})
        return StepResult(observation=seen, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> SRLState:
        return SRLState(**payload)


def _observation(
    seen: Mapping[str, Any],
    info: Mapping[str, Any],
    *,
    reward: float | None = None,
    done: bool = False,
) -> SRLObservation:
    return SRLObservation(
        text=seen["text"],
        can_act=bool(seen["can_act"]),
        invalid=info["invalid"],
        attempts_left=info["attempts_left"],
        legal_actions=list(info.get("legal_actions", ())),
        reward_components=dict(info["reward_components"]),
        statistics=dict(info.get("statistics", {})),
        forfeited=bool(info.get("forfeited")),
        reward=reward,
        done=done,
    )
