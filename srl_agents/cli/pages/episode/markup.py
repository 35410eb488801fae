"""One self-contained HTML file: style and script inside, nothing fetched, readable without script.

Replies and names come from anywhere. They are made printable and escaped here, and the content policy
admits exactly the one script and the one style sheet that ship with this package.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from string import Template

import srl_envs
from srl_agents.cli.views.recorded import RecordedEpisode, RecordedStep, Turn
from srl_agents.cli.views.transcript import news, printable, verdict
from srl_envs.core import seat_name

_ASSETS = files("srl_agents.cli.pages.episode")


def page(episode: RecordedEpisode) -> str:
    """The HTML of a whole episode."""
    game = episode.transcript
    style, script = (_asset(name) for name in ("episode.css", "episode.js"))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src {_source(style)}; script-src {_source(script)}"
    )
    return Template(_asset("episode.html")).substitute(
        policy=policy,
        style=style,
        script=script,
        title=_safe(f"{game.env_id}, seed {game.seed}"),
        head=_head(episode),
        steps="\n".join(_step(episode, step) for step in episode.steps),
        end=_end(episode),
        total=len(episode.steps),
    )


def _head(episode: RecordedEpisode) -> str:
    game, spec = episode.transcript, srl_envs.spec(episode.transcript.env_id)
    facts = {
        "Mode": f"{spec.mode}, {len(game.outcomes)} seats",
        "Seed": f"{game.seed} ({game.split})",
        "Steps": str(len(episode.steps)),
        **{name: str(value) for name, value in game.options.items()},
    }
    listed = "".join(
        f"<div><dt>{_safe(name)}</dt><dd>{_safe(value)}</dd></div>" for name, value in facts.items()
    )
    notes = ""
    if episode.differs:
        parts = ", ".join(episode.differs)
        notes = (
            '<p class="warning" role="note">This recording does not replay to what it claims: '
            f"{_safe(parts)} differ. What is shown is the replay.</p>"
        )
    return (
        f"<h1>{_safe(game.env_id)}</h1><p class=lead>{_safe(spec.summary)}</p>"
        f"<dl class=facts>{listed}</dl>{notes}{_results(episode)}"
    )


def _results(episode: RecordedEpisode) -> str:
    """Who got what: outcome, reward, and every component."""
    game = episode.transcript
    names = [
        n for n in dict.fromkeys(n for parts in game.components for n in parts) if n != "outcome"
    ]
    heads = "".join(f'<th scope="col">{_safe(name)}</th>' for name in ("outcome", "reward", *names))
    rows = []
    for seat, outcome in enumerate(game.outcomes):
        forfeited = ' <span class="tag bad">forfeited</span>' if seat in game.forfeited else ""
        parts = [game.components[seat].get(name) for name in names]
        cells = "".join(f"<td>{'' if n is None else f'{n:.4g}'}</td>" for n in parts)
        rows.append(
            f'<tr><th scope="row"><span class="who s{seat % 6}">{_safe(episode.who(seat))}</span>'
            f"{forfeited}</th><td><b>{outcome:+.3f}</b></td><td>{game.rewards[seat]:+.3f}</td>"
            f"{cells}</tr>"
        )
    cut = "<p class=quiet>The episode was cut off before its end.</p>" if game.truncated else ""
    return (
        '<div class="scroll" tabindex="0" role="group" aria-label="Results"><table class="results">'
        f'<thead><tr><th scope="col">seat</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{cut}"
    )


def _step(episode: RecordedEpisode, step: RecordedStep) -> str:
    turns = "".join(_turn(episode, turn) for turn in step.on_move)
    waiting = "".join(
        f"<details><summary>{_safe(episode.who(turn.seat))} waits, and sees</summary>"
        f"{_text(_fresh(turn.before, turn.text))}</details>"
        for turn in step.turns
        if turn.reply is None
    )
    waiting = f'<div class="waits">{waiting}</div>' if waiting else ""
    return (
        f'<section class="step" id="step-{step.number}" tabindex="-1" '
        f'aria-label="Step {step.number} of {len(episode.steps)}">'
        f"<h2>Step {step.number}</h2>{_board(step.board)}{turns}{waiting}{_payments(episode, step)}</section>"
    )


def _turn(episode: RecordedEpisode, turn: Turn) -> str:
    fresh = _fresh(turn.before, turn.text)
    whole = (
        ""
        if fresh == turn.text
        else f"<details><summary>all that it sees</summary>{_text(turn.text)}</details>"
    )
    tone = "bad" if turn.invalid else "good"
    mark = f'<span class="tag {tone}">{_safe(verdict(turn.invalid, turn.played))}</span>'
    kind = "reply refused" if turn.invalid else "reply"
    return (
        f'<div class="turn s{turn.seat % 6}"><h3><span class="who s{turn.seat % 6}">'
        f"{_safe(episode.who(turn.seat))}</span> {mark}</h3><div class=pair>"
        f"<div><h4>what {seat_name(turn.seat)} sees: “you” is this seat</h4>{_text(fresh)}{whole}</div>"
        f"<div>{_thoughts(turn.thoughts)}"
        f'<h4>replies</h4><div class="{kind}">{_text(turn.reply or "")}</div></div></div></div>'
    )


def _thoughts(thoughts: str) -> str:
    """What was written before the reply, folded."""
    if not thoughts:
        return ""
    summary = f"thoughts, {len(thoughts)} characters; the game does not read them"
    return f'<details class="thoughts"><summary>{summary}</summary>{_text(thoughts)}</details>'


def _payments(episode: RecordedEpisode, step: RecordedStep) -> str:
    paid = [
        f'<li><span class="who s{turn.seat % 6}">{_safe(episode.who(turn.seat))}</span> '
        f"{turn.reward:+.3g} <span class=quiet>({_parts(turn.components)})</span></li>"
        for turn in step.turns
        if any(turn.components.values())
    ]
    return f'<ul class="paid" aria-label="Paid in this step">{"".join(paid)}</ul>' if paid else ""


def _parts(components: Mapping[str, float]) -> str:
    return ", ".join(f"{_safe(name)} {value:+.3g}" for name, value in components.items() if value)


def _board(board: str | None) -> str:
    """The position that all seats share: what each sees as its own pieces differs."""
    if board is None:
        return ""
    return f'<div class="board"><h3 class="label">the game, as a spectator sees it</h3>{_text(board)}</div>'


def _end(episode: RecordedEpisode) -> str:
    return _board(episode.last_board) + "".join(
        f'<div class="turn s{seat % 6}"><h3><span class="who s{seat % 6}">'
        f"{_safe(episode.who(seat))}</span> sees at the end</h3>{_text(news(before, text))}"
        f"<details><summary>all that it sees</summary>{_text(text)}</details></div>"
        for seat, (before, text) in enumerate(episode.last)
    )


def _fresh(before: str | None, text: str) -> str:
    return text if before is None else news(before, text)


def _text(text: str) -> str:
    shown = printable(text.strip("\n"))
    return f"<pre>{escape(shown)}</pre>" if shown else '<p class="quiet">(nothing)</p>'


def _safe(text: str) -> str:
    return escape(printable(text))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """A content-policy source that matches exactly this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
