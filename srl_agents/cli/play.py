"""`srl play ENV POLICY ...`: play episodes with bots, language models and you, and watch."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

import srl_envs
from srl_agents.agents.first_look import first_look
from srl_agents.agents.grammar import HUMAN, HumanName
from srl_agents.agents.resolver import Playing, find, reply_budget
from srl_agents.agents.text_players import Player, TextPlayers, thoughts_of
from srl_agents.cli.command_line import read_options
from srl_agents.cli.options import JSONOptions, RandomOptions, ReplyOptions
from srl_agents.cli.pages.desk.questions import Desk
from srl_agents.cli.person.browser import InTheBrowser, table_in_the_browser
from srl_agents.cli.person.keyboard import (
    Human,
    LeaveGameError,
    PauseGameError,
    require_terminal,
)
from srl_agents.cli.person.pausing import caught_up, is_paused, keep, paused_game
from srl_agents.cli.views.transcript import Result, TranscriptView
from srl_agents.engines.protocol import SamplingSettings
from srl_agents.records import plain_json
from srl_envs.api.episode import Recorder, Transcript
from srl_envs.core import SPLITS, seat_name
from srl_envs.errors import ConfigError, nearest
from srl_envs.registry import EnvSpec, adopt
from srl_envs.turns.grammar import body_of

DESCRIPTION = """Play episodes of one environment and watch them live.

One agent per seat, in the order of the seats (`srl docs agents`):
  human                            you, at the keyboard, or with --web in the browser
  random, middle, bot:strong ...   a bot of the environment (srl envs ENV lists them)
  tiny, smollm2-135m               a language model that is fetched for you
  HUB_ID or FOLDER                 any other one
  MODEL+ADAPTER                    a model with the trained adapter in a folder
  openai:MODEL@URL                 a model behind an OpenAI-compatible endpoint
  google:MODEL                     a model of a known provider: openai, anthropic, google, ...

Examples:
  srl play connect_four-v0 human middle
  srl play connect_four-v0 human middle --web
  srl play paused-connect_four-v0-seed0.jsonl human middle --web
  srl play math_duel-v0 tiny strong --seed 7 --split eval
  srl play connect_four-v0 random strong --episodes 20 --mirror --quiet
  srl play connect_four-v0 middle strong --option rows=5 --option cols=5 --save game.jsonl
"""


@dataclass(frozen=True)
class PlayOptions(RandomOptions, ReplyOptions, JSONOptions):
    """What to play, who plays, and what to show."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """Id of the environment, or the file of a game that a person paused: it goes on, with the same agents."""
    policies: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="AGENT ...")]
    """Policies, one per seat."""
    split: Annotated[str, tyro.conf.arg(metavar="{train,eval}")] = "train"
    """Which instances: those for training, or those held back for measuring."""
    episodes: int = 1
    """Number of seeds that are played."""
    mirror: bool = False
    """Play each seed once in every seating."""
    option: Annotated[
        tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")
    ] = ()
    """Options of the environment; `srl envs ENV` lists them."""
    save: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the transcript here; with several games, -1, -2 ... is put before the ending."""
    quiet: bool = False
    """Print results only."""
    web: bool = False
    """Play the seats of `human` in the browser, with boards to click and legal moves as buttons."""

    def check(self) -> None:
        """Refuse impossible values; tyro would draw a box around an error of ``__post_init__``.

        Raises:
            ConfigError: a value is out of range, or two do not go together.
        """
        if self.episodes < 1:
            raise ConfigError(f"--episodes {self.episodes}: play 1 or more.")
        if self.seed < 0:
            raise ConfigError(f"--seed {self.seed}: give a whole number >= 0.")
        if self.split not in SPLITS:
            hint = nearest(self.split, SPLITS)
            raise ConfigError(f"--split {self.split!r} is neither train nor eval.{hint}")
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ConfigError(f"--max-new-tokens {self.max_new_tokens}: give 1 or more.")
        if HUMAN in self.policies and (self.json or self.quiet) and not self.web:
            raise ConfigError("a person has to see the game: leave out --json and --quiet.")
        if self.web and HUMAN not in self.policies:
            raise ConfigError("--web is for a person: give `human` a seat.")
        if is_paused(self.env) and (self.episodes > 1 or self.mirror or self.option):
            raise ConfigError(
                f"{self.env} is one game, with its options: leave out --episodes, --mirror and --option."
            )


def main(argv: list[str]) -> int:
    """Run the command; see `srl play --help`."""
    options = read_options(PlayOptions, command="srl play", description=DESCRIPTION, argv=argv)
    view = TranscriptView(live=not (options.quiet or options.json))
    try:
        play(options, view)
    except LeaveGameError as left:
        view.note(str(left))
        return 0 if isinstance(left, PauseGameError) else 1
    return 0


def play(options: PlayOptions, view: TranscriptView) -> None:
    """Play all games of ``options``.

    Raises:
        LeaveGameError: a person left.
        SRLError: the user has something to fix.
    """
    options.check()
    paused = paused_game(Path(options.env)) if is_paused(options.env) else None
    if paused is not None:
        options = replace(options, env=paused.env_id, seed=paused.seed, split=paused.split)
    spec = srl_envs.spec(adopt(options.env))
    made_with = options_of(options.option) if paused is None else paused.options
    env: Any = srl_envs.make(spec.id, **made_with)
    with ExitStack() as closing:
        closing.callback(env.close)
        desk = None
        if options.web:
            desk, url = closing.enter_context(table_in_the_browser())
            print(f"open {url} to play", file=sys.stderr, flush=True)
        table = Table(spec, len(env.possible_agents), options, view, desk)
        closing.callback(table.close)
        if options.save is not None and not options.save.parent.is_dir():
            raise ConfigError(
                f"--save {options.save}: folder {options.save.parent} does not exist."
            )
        turns = range(table.seats if options.mirror else 1)
        games = [(options.seed + n, turn) for n in range(options.episodes) for turn in turns]
        for number, (seed, turn) in enumerate(games, 1):
            players = table.seated(turn, seed)
            names = table.names(turn)
            try:
                transcript = play_one(
                    env, players, names, view, seed=seed, split=options.split, earlier=paused
                )
            except PauseGameError as error:
                if desk is not None:
                    desk.tell(str(error))
                raise
            path = _save(options.save, transcript, number, len(games))
            table.count(turn, transcript)
            table.tell(names, transcript)
            if options.json:
                print(plain_json(_line(transcript, names, path)), flush=True)
            else:
                view.end(transcript, names, path, number if len(games) > 1 else None)
        if len(games) > 1 and not options.json:
            view.summary(table.results())


def recorded_game(
    env_id: str, agents: tuple[str, ...], *, seed: int, max_new_tokens: int | None
) -> Transcript:
    """One game between agents other than people, played without a display.

    Raises:
        SRLError: the user has something to fix.
    """
    options = PlayOptions(env=env_id, policies=agents, seed=seed, max_new_tokens=max_new_tokens)
    options.check()
    view = TranscriptView(live=False)
    spec = srl_envs.spec(adopt(env_id))
    with ExitStack() as closing:
        env: Any = srl_envs.make(spec.id)
        closing.callback(env.close)
        table = Table(spec, len(env.possible_agents), options, view)
        closing.callback(table.close)
        players, names = table.seated(0, seed), table.names(0)
        return play_one(env, players, names, view, seed=seed, split=options.split)


def play_one(
    env: Any,
    players: Mapping[int, Player],
    names: Mapping[int, str],
    view: TranscriptView,
    *,
    seed: int,
    split: str,
    earlier: Transcript | None = None,
) -> Transcript:
    """One episode, shown as it happens; one that was paused goes on.

    Raises:
        LeaveGameError: a person left, or paused: then the game so far is in a file.
    """
    observations, infos = env.reset(seed=seed, options={"split": split})
    recorder = Recorder(env, observations)
    view.begin(env.env_spec.id, names, seed, split, secret=HUMAN in names.values())
    if earlier is not None:
        observations, infos = caught_up(
            env, players, names, (observations, infos), recorder=recorder, earlier=earlier
        )
    try:
        return _played(env, players, names, view, recorder=recorder, seen=(observations, infos))
    except PauseGameError:
        raise PauseGameError(keep(recorder.transcript())) from None


def _played(
    env: Any,
    players: Mapping[int, Player],
    names: Mapping[int, str],
    view: TranscriptView,
    *,
    recorder: Recorder,
    seen: tuple[Any, Any],
) -> Transcript:
    """The rest of an episode."""
    observations, infos = seen
    while env.agents:
        replies: dict[int, str] = {}
        for seat, agent in enumerate(env.possible_agents):
            if not observations[agent]["can_act"]:
                continue
            text = observations[agent]["text"]
            legal = infos[agent].get("legal_actions") if names[seat] == HUMAN else None
            bodies = legal and [body_of(reply) for reply in legal]
            view.turn(seat, text, bodies)
            if isinstance(player := players[seat], InTheBrowser):
                player.legal = bodies
            start = time.monotonic()
            with view.thinking(seat):
                replies[seat] = players[seat](text)
            view.reply(seat, replies[seat], time.monotonic() - start)
        result = env.step({env.possible_agents[s]: text for s, text in replies.items()})
        recorder.add(replies, result, {seat: thoughts_of(players[seat]) for seat in replies})
        observations, rewards, _, _, infos = result
        for seat in replies:
            agent = env.possible_agents[seat]
            view.verdict(seat, infos[agent]["invalid"], rewards[agent], infos[agent]["played"])
    for seat in [s for s, name in names.items() if name == HUMAN] or [0]:
        view.last_look(seat, observations[env.possible_agents[seat]]["text"])
    return recorder.transcript()


@dataclass
class Table:
    """Seats of the policies, and their results so far."""

    spec: EnvSpec
    seats: int
    """Number of seats of the environment as it was made; an option may change it."""
    options: PlayOptions
    view: TranscriptView
    desk: Desk | None = None
    """Where people sit; None for the keyboard."""
    played: list[tuple[int, Transcript]] = field(default_factory=list)
    players: TextPlayers = field(init=False)

    def __post_init__(self) -> None:
        policies, seats = self.options.policies, self.seats
        if len(policies) != seats:
            given = f"{len(policies)} given ({', '.join(policies)})" if policies else "none given"
            others = [*self.spec.bots, *(list(self.spec.bots)[:1] or [HUMAN]) * seats]
            example = " ".join([*policies, *others][:seats])
            raise ConfigError(
                f"{self.spec.id} has {seats} seats, one policy each; {given}."
                f" Try: srl play {self.spec.id} {example}"
            )
        first_look((name, self.spec.id) for name in policies)
        candidates = [find(name, self.spec.id) for name in policies]
        people = any(isinstance(candidate.name, HumanName) for candidate in candidates)
        if people and self.desk is None:
            require_terminal()
        with self.view.busy(f"loading {', '.join(policies)}"):
            longest = self.options.max_new_tokens or reply_budget(self.spec.id)
            sampling = SamplingSettings(max_new_tokens=longest)
            playing = Playing(env_id=self.spec.id, sampling=sampling)
            self.players = TextPlayers(candidates, playing, seed=self.options.seed)

    def names(self, turn: int) -> dict[int, str]:
        """Seat -> policy name, each policy ``turn`` seats further."""
        seats = self.seats
        return {(i + turn) % seats: name for i, name in enumerate(self.options.policies)}

    def seated(self, turn: int, seed: int) -> dict[int, Player]:
        """Seat -> player of one game; bots are made anew for its seed, models are kept."""
        seats = self.seats
        return {
            (i + turn) % seats: self._person((i + turn) % seats, turn)
            if name == HUMAN
            else self.players.player(i, seed)
            for i, name in enumerate(self.options.policies)
        }

    def _person(self, seat: int, turn: int) -> Player:
        """A person in a seat, at the keyboard or at the desk."""
        if self.desk is None:
            return Human(seat)
        others = [name for other, name in sorted(self.names(turn).items()) if other != seat]
        against = f" with {', '.join(others)}" if others else ""
        return InTheBrowser(self.desk, f"{self.spec.id}: you are {seat_name(seat)}{against}")

    def tell(self, names: Mapping[int, str], transcript: Transcript) -> None:
        """Show people at the desk how a game ended."""
        if self.desk is None:
            return
        results = [
            f"{seat_name(seat)} ({name}) {transcript.outcomes[seat]:+g}"
            for seat, name in sorted(names.items())
        ]
        self.desk.tell(f"The game is over: {', '.join(results)}.")

    def count(self, turn: int, transcript: Transcript) -> None:
        """Keep a game for `results`."""
        self.played.append((turn, transcript))

    def results(self) -> list[Result]:
        """One line per policy of the command line."""
        return [self._result(i, name) for i, name in enumerate(self.options.policies)]

    def _result(self, index: int, name: str) -> Result:
        seats = self.seats
        own_seats = [((index + turn) % seats, game) for turn, game in self.played]
        outcomes = [game.outcomes[seat] for seat, game in own_seats]
        best = [max(game.outcomes) for _, game in own_seats]
        level = [len(set(game.outcomes)) == 1 for _, game in own_seats]
        replied = [
            step.invalid[s] for s, game in own_seats for step in game.steps if s in step.replies
        ]
        wins = sum(o == b and not d for o, b, d in zip(outcomes, best, level, strict=True))
        games = len(own_seats)
        return Result(
            name=name,
            games=games,
            wins=wins,
            draws=sum(level),
            losses=games - wins - sum(level),
            outcome=sum(outcomes) / games,
            reward=sum(game.rewards[seat] for seat, game in own_seats) / games,
            invalid=sum(label is not None for label in replied) / max(1, len(replied)),
        )

    def close(self) -> None:
        """Give back what models play with."""
        self.players.close()


def options_of(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``KEY=VALUE`` pairs; a value is read as JSON where it is JSON, else as text.

    Raises:
        ConfigError: a pair has no ``=`` or no key, or a key is given twice.
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"--option {pair!r}: write KEY=VALUE, like rows=5.")
        if key in options:
            raise ConfigError(f"--option {key} is given twice.")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value.split(",") if "," in value else value
    return options


def _save(path: Path | None, transcript: Transcript, number: int, games: int) -> Path | None:
    if path is None:
        return None
    if games > 1:
        path = path.with_name(f"{path.stem}-{number}{path.suffix}")
    try:
        transcript.save(path)
    except OSError as error:
        raise ConfigError(f"--save {path}: {error.strerror}.") from None
    return path


def _line(transcript: Transcript, names: Mapping[int, str], path: Path | None) -> dict[str, Any]:
    return {
        "env": transcript.env_id,
        "options": transcript.options,
        "split": transcript.split,
        "seed": transcript.seed,
        "policies": [names[seat] for seat in sorted(names)],
        "steps": len(transcript.steps),
        "outcomes": transcript.outcomes,
        "rewards": transcript.rewards,
        "components": transcript.components,
        "forfeited": transcript.forfeited,
        "digest": transcript.digest,
        "saved": None if path is None else str(path),
    }
