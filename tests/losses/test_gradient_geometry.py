"""A-GEM's projection and GSS's cosine against recorded numbers, and what must hold for any gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from emi_bench.losses.gradient_geometry import max_cosine, project_conflict
from tests.golden_files import golden


@pytest.mark.parametrize("case", golden("agem_projection")["cases"], ids=lambda c: c["name"])
def test_projection_matches_the_recorded_cases(case: dict) -> None:
    g, g_ref = torch.tensor(case["g"]), torch.tensor(case["g_ref"])
    torch.testing.assert_close(project_conflict(g, g_ref), torch.tensor(case["out"]), atol=1e-6, rtol=1e-5)
    if case["dot"] >= 0:
        assert torch.equal(project_conflict(g, g_ref), g)


@given(st.integers(0, 2**31), st.integers(1, 40))
def test_projected_gradient_is_orthogonal_and_shorter_by_the_conflict(seed: int, n: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    g, g_ref = torch.randn(2, n, generator=rng, dtype=torch.float64)
    out, dot = project_conflict(g, g_ref), g @ g_ref
    if dot >= 0:
        assert torch.equal(out, g)
    else:
        assert (out @ g_ref).abs() <= 1e-12 * (1 + g.norm() * g_ref.norm())
        torch.testing.assert_close(out @ out, g @ g - dot**2 / (g_ref @ g_ref), atol=1e-10, rtol=1e-8)


def test_zero_reference_never_conflicts() -> None:
    g = torch.tensor([1.0, -2.0])
    assert torch.equal(project_conflict(g, torch.zeros(2)), g)


def test_cosine_matches_the_recorded_case() -> None:
    case = golden("gss_cosine")
    subsets, g = torch.tensor(case["mem_grads"]), torch.tensor(case["g"])
    for one, expected in zip(subsets, case["cosine"], strict=True):
        assert max_cosine(one[None], g).tolist() == pytest.approx(expected, abs=1e-6)
    assert max_cosine(subsets, g).item() == pytest.approx(case["max"], abs=1e-6)
    assert max_cosine(subsets, torch.zeros_like(g)).tolist() == [0.0]
