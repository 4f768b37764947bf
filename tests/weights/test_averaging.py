"""Averaging checkpoints: parameters with multiplicities, everything else from the first."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from checkwise.deployed import average
from checkwise.errors import InputError

NAMES = ("weight", "bias")


def checkpoint(seed: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weight, bias, mean = (torch.randn(s, generator=generator).to(dtype) for s in ((4, 3), 4, 4))
    return {
        "weight": weight * 1e3,
        "bias": bias * 1e-8,
        "running_mean": mean,
        "num_batches_tracked": torch.tensor(seed),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("times", [(1, 1), (3, 7, 2), (1,) * 51])
def test_equal_checkpoints_give_exactly_themselves(
    dtype: torch.dtype, times: tuple[int, ...]
) -> None:
    one = checkpoint(3, dtype)
    found = average(((dict(one), n) for n in times), parameters=NAMES)
    assert set(found) == set(one)
    assert all(torch.equal(found[name], one[name]) for name in one)
    assert all(found[name].dtype == one[name].dtype for name in one)


def test_the_mean_counts_multiplicities() -> None:
    parts = [(checkpoint(seed), times) for seed, times in ((0, 2), (1, 1), (2, 3))]
    found = average(iter(parts), parameters=NAMES)
    for name in NAMES:
        expected = torch.stack([n * tensors[name].double() for tensors, n in parts]).sum(0) / 6
        assert torch.allclose(found[name].double(), expected, rtol=1e-7, atol=0)


def test_buffers_are_those_of_the_first_and_not_shared_with_it() -> None:
    first = checkpoint(0)
    found = average([(first, 1), (checkpoint(1), 5)], parameters=NAMES)
    assert torch.equal(found["running_mean"], first["running_mean"])
    assert int(found["num_batches_tracked"]) == 0
    found["running_mean"].zero_()
    assert first["running_mean"].abs().sum() > 0


def test_many_small_steps_do_not_round_away() -> None:
    parts = [({"weight": torch.tensor([1e4 + k * 1e-3])}, 1) for k in range(1000)]
    exact = sum(float(tensors["weight"].double()) for tensors, _ in parts) / 1000
    found = average(parts, parameters=["weight"])["weight"]
    assert found.double().item() == pytest.approx(exact, abs=5e-4)  # half a float32 step at 1e4


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([({"weight": torch.ones(4, 3)}, 1)], "'bias'"),
        ([(checkpoint(0), 1), ({**checkpoint(1), "bias": torch.ones(5)}, 1)], r"\(4,\) and \(5,\)"),
    ],
)
def test_what_cannot_be_averaged_is_refused(
    parts: list[tuple[dict[str, Tensor], int]], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        average(parts, parameters=NAMES)
