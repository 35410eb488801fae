"""Reports matches until it is killed; prints each number after the store acknowledged it."""

import itertools
import sys

from srl_agents.league.store.history import AgentVersion, LeagueStore
from srl_agents.records import MatchResult, MatchSpec

path, first = sys.argv[1], int(sys.argv[2])
store = LeagueStore(path)
for name in ("a", "b"):
    store.add_agent(AgentVersion(agent_id=name, lineage=name, role="frozen"))
print("ready", flush=True)
for number in itertools.count(first):
    spec = MatchSpec(env_id="duel-v0", seed=number, split="eval", seats=("a", "b"), number=number)
    outcomes = (1.0, -1.0)
    result = MatchResult(
        match_id=spec.match_id, outcomes=outcomes, rewards=outcomes, termination="ok"
    )
    store.report(spec, result)
    print(number, flush=True)
