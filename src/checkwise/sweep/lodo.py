"""The inner runs of leave-one-domain-out validation, as a study like any other.

For an outer target T and every other domain v an inner run holds out T and v and trains on the
rest, with the algorithms, hyperparameters, seeds and schedule of the study. The set {T, v} is
trained once, whichever of the two is the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from checkwise.errors import InputError
from checkwise.store.layout import INNER
from checkwise.sweep.datasets import check_held_out, domains_of
from checkwise.sweep.study import DataSpec, Study


def inner_study(study: Study, roots: Mapping[str, str]) -> Study:
    """The study whose held-out sets are those of the outer runs plus one further domain.

    Weights and logits are not kept: only the results on the further domain are needed.
    """
    if study.draws or any(spec.places for spec in study.data):
        reason = "draws" if study.draws else "places"
        raise InputError(
            f"Expected a study with seeds that inner runs share and with whole domains held out, "
            f"but {study.name} has `{reason}`: leave-one-domain-out validation cannot use it.",
            code="unsupported",
        )
    data = tuple(_inner(spec, domains_of(spec, roots)) for spec in study.data)
    return replace(
        study, name=f"{study.name}{INNER}", data=data, keep="none", logits="none", averages=()
    )


def _inner(spec: DataSpec, domains: Sequence[str]) -> DataSpec:
    check_held_out(spec, domains)
    outer = spec.held_out or tuple((name,) for name in domains)
    for held_out in outer:
        if len(set(domains) - set(held_out)) < 2:
            raise InputError(
                f"Expected at least 2 source domains to leave one out, but {spec.name} without "
                f"{', '.join(held_out)} has fewer: use a data set with more domains.",
                code="unsupported",
            )
    sets = {
        held_out_set(held_out, extra, domains)
        for held_out in outer
        for extra in domains
        if extra not in held_out
    }
    place = {name: index for index, name in enumerate(domains)}
    ordered = sorted(sets, key=lambda names: [place[name] for name in names])
    return replace(spec, held_out=tuple(ordered))


def held_out_set(outer: Sequence[str], extra: str, domains: Sequence[str]) -> tuple[str, ...]:
    """The domains that an inner run holds out, in the order of the data set."""
    return tuple(name for name in domains if name in outer or name == extra)
