"""Bugs in the source that a rehearsal runs: one place changes, and the rehearsal finds it."""

import ast

import pytest

from benchmarks.memory.planted_bugs import NAMED, Planter, Site, found_by, planting, run

SOURCE = """
import torch

@torch.no_grad()
def scores(model, rows, device):
    ids = torch.tensor(rows, device=device)
    mask = (ids > 0).to(device)
    with torch.no_grad():
        out = model(ids, mask)
    return out.detach()
"""


def sites() -> list[Site]:
    found: list[Site] = []

    def note(site: Site, node: object) -> object:
        found.append(site)
        return node

    Planter("scores", note).visit(ast.parse(SOURCE))
    return found


def test_every_kind_of_bug_has_its_places() -> None:
    kinds = [site.kind for site in sites()]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "float32 upcast": 4, "forgotten .to": 1, "kept activation": 4, "missing no_grad": 3,
        "wrong device": 1,
    }  # fmt: skip


@pytest.mark.parametrize("site", sites(), ids=lambda site: site.key)
def test_a_bug_changes_one_line_and_no_other(site: Site) -> None:
    changed = Planter("scores", planting(site.key)).visit(ast.parse(SOURCE))
    after = ast.unparse(ast.fix_missing_locations(changed)).splitlines()
    before = ast.unparse(ast.parse(SOURCE)).splitlines()
    different = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert len(different) == 1


@pytest.mark.slow
def test_a_rehearsal_finds_a_cpu_tensor_in_a_loss_and_logits_that_are_materialised() -> None:
    healthy = run("")
    assert not healthy.error
    assert len(healthy.places) > 100
    assert found_by(healthy.rehearsal["phases"], healthy) == ""
    for name, way in (("a CPU tensor in a loss", "devices"), ("logits materialised", "plan")):
        assert found_by(healthy.rehearsal["phases"], run(name)) == way


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMED)
def test_a_rehearsal_finds_every_bug_with_a_name(name: str) -> None:
    assert found_by(run("").rehearsal["phases"], run(name))
