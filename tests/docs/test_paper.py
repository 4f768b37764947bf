"""Every item of the paper is on its page with what does it, and does it on small data.

A row of `docs/paper.md` says what to run: a command, Python, the name of a method to compare,
a file that one report writes, or a line of the study file. It is run as it stands there, and one
check looks at what comes out.
"""

from __future__ import annotations

import io
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property, partial
from math import inf, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from numpy.typing import NDArray

import checkwise as cw
from checkwise.cli import main
from checkwise.study.train import networks
from tests.docs.run_page import BLOCK
from tests.refusals import refused

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "paper.md"
RUN = ROOT / "examples" / "predictions"
SECTION = re.compile(r"^## ([^\n]+): (\d+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (?!item )(.+?) \| `(.+)` \|$", re.MULTILINE)
MADE = (
    "swad,swad-nobn,swad-as-described,swad-as-described-nobn,source-acc-bn,dense-swad,"
    "dense-swad-nobn,sma,eoa,diwa-uniform,diwa-greedy,lyu-mmd,lyu-coral,mixup-acc,mixup-loss"
)
SLOW = "binning,cross-fit,risk-coverage"
METRICS = {"target_accuracy", "target_nll", "target_ece", "target_cwece"}
STUDY = """
name = "toy"
role = "evaluation"
[data]
dataset = "Features"
root = "toy.npz"
held_out = "each"
deduplicate = true
[network]
kind = "mlp"
hidden = 16
[runs]
algorithms = ["ERM", "VREx"]
hparams_seeds = [0, 1, 2]
[training]
steps = 104
record_every = 13
averages = ["sma", "dense-swad"]
shared_init = true
[records]
keep = "all"
logits = "all"
[hparams]
lr = [0.003, 0.01, 0.001]
batch_size = 16
vrex_penalty_anneal_iters = 50
"""
IMAGES = """
name = "digits"
role = "development"
[data]
dataset = "RotatedMNIST"
held_out = ["75"]
[network]
kind = "digits"
[runs]
algorithms = ["ERM"]
[training]
steps = 14
record_every = 13
[records]
keep = "all"
[hparams]
batch_size = 8
"""
SECTIONS = {
    name: (int(count), ROW.findall(body)) for name, count, body in SECTION.findall(PAGE.read_text())
}
ROWS = {item: how for _, rows in SECTIONS.values() for item, how in rows}


def toy_features() -> dict[str, NDArray[Any]]:
    """Three domains of 150 examples in three classes; the first two examples are the same."""
    random = np.random.default_rng(0)
    label, domain = np.tile(np.arange(3), 150), np.repeat(np.arange(3), 150)
    centres = random.normal(size=(3, 8)) + random.normal(scale=0.7, size=(3, 3, 8))
    features = centres[domain, label] + random.normal(scale=1.3, size=(450, 8))
    features[3], label[3] = features[0], label[0]
    names = np.array(["art", "photo", "sketch"])[domain]
    return {"features": features.astype(np.float32), "label": label, "domain": names}


def printed(command: str, **places: Path) -> str:
    """What a command prints; capital names in it stand for places."""
    words = [str(places.get(word, word)) for word in shlex.split(command)]
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as stop:
        main(words[1:])
    assert not stop.value.code, f"{command} ended with {stop.value.code}"
    return out.getvalue()


class Studies:
    """The studies that rows are run on; each is trained when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def trained(self) -> Path:
        """A study with everything that is made of it."""
        data, out = self.folder / "toy.npz", self.folder / "study"
        np.savez(data, allow_pickle=False, **toy_features())
        (self.folder / "toy.toml").write_text(STUDY)
        printed(f"checkwise study run {self.folder}/toy.toml -o {out} --workers 1")
        derive = f"checkwise study derive {out} --data toy={data}"
        printed(f"{derive} --method lodo --workers 1")
        printed(f"{derive} --method {MADE} --param minibatches=5")
        return out

    @cached_property
    def images(self) -> Path:
        """A study of images: two checkpoints of one run."""
        (self.folder / "digits.toml").write_text(IMAGES)
        out = self.folder / "images"
        printed(f"checkwise study run {self.folder}/digits.toml -o {out} --workers 1")
        return out

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """Every table and figure that reports write, by name."""
        report = f"checkwise study report {self.trained} --tables {self.folder}"
        printed(f"{report}/tables --figures {self.folder}/figures")
        printed(f"{report}/slow --only {SLOW}")
        folders = (self.folder / name for name in ("tables", "slow", "figures"))
        return {file.name: file for folder in folders for file in folder.rglob("*.*")}

    @cached_property
    def compared(self) -> Mapping[str, list[dict[str, Any]]]:
        """The rows of one comparison with every method that the page names, by method."""
        names = [how for how in ROWS.values() if re.fullmatch(r"[a-z0-9+-]+", how)]
        asked = f"checkwise study compare STUDY --rules {','.join(names)} --json"
        rows = json.loads(printed(asked, STUDY=self.trained))["contrasts"]
        return {name: [row for row in rows if row["rule"] == name] for name in names}

    def run(self, how: str) -> Any:
        """What a row of the page gives."""
        if how.startswith("checkwise study run "):
            return printed(how)
        if how.startswith("checkwise "):
            places = {"RUN": RUN, "STUDY": self.trained} if "STUDY" in how else {"RUN": RUN}
            if "IMAGES" in how:
                places = {"IMAGES": self.images, "DIR": self.folder / "shown"}
            as_json = "" if "DIR" in places else " --json"
            text = printed(how + as_json, **places)
            return json.loads(text) if as_json else places["DIR"]
        if how.endswith(".csv"):
            return pandas.read_csv(self.files[how])
        if how.endswith(".png"):
            return self.files[how]
        if " = " in how:
            assert f"\n{how}\n" in STUDY
            return cw.load_runs(self.trained)
        if how.startswith(("cw.", "str(")):
            return eval(how, python_names())
        return self.compared[how]


def python_names() -> dict[str, Any]:
    """What the block of the page defines."""
    (block,) = [match[2] for match in BLOCK.finditer(PAGE.read_text())]
    names: dict[str, Any] = {}
    exec(block.replace("examples/predictions", str(RUN)), names)
    return names


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studies]:
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHECKWISE_CACHE", str(folder / "cache"))
        patch.setattr(networks, "timm_backbone", lambda name: networks.lite0())  # none is trained
        yield Studies(folder)


# What each row has to give, by item.
Check = Callable[[Any], None]
CHECKS: dict[str, Check] = {}


def check(*items: str) -> Callable[[Check], Check]:
    def add(function: Check) -> Check:
        assert not set(items) & set(CHECKS)
        CHECKS.update(dict.fromkeys(items, function))
        return function

    return add


# Metrics: the formulas once more, on the example's logits.


@dataclass(frozen=True)
class Outputs:
    """Probabilities and labels of one checkpoint."""

    p: NDArray[np.float64]
    y: NDArray[np.int64]

    @classmethod
    def at(cls, step: int) -> Outputs:
        saved = np.load(RUN / f"step-{step:06d}" / "val.npz")
        z = saved["logits"].astype(np.float64)
        e = np.exp(z - z.max(1, keepdims=True))
        return cls(e / e.sum(1, keepdims=True), saved["labels"])

    @property
    def right(self) -> NDArray[np.bool_]:
        return np.asarray(self.p.argmax(1) == self.y)

    @property
    def one_hot(self) -> NDArray[np.float64]:
        return np.eye(self.p.shape[1])[self.y]

    def accuracy(self) -> float:
        return float(self.right.mean())

    def nll(self) -> float:
        return float(-np.log(self.p[np.arange(len(self.y)), self.y]).mean())

    def brier(self) -> float:
        return float(((self.p - self.one_hot) ** 2).sum(1).mean())

    def worst_class(self) -> float:
        return min(float(self.right[self.y == c].mean()) for c in np.unique(self.y))

    def ece(self) -> float:
        u = self.p.max(1)[:, None]
        w = np.exp(-((u - np.linspace(0, 1, 15)) ** 2) / (2 * 0.1**2))
        w /= w.sum(1, keepdims=True)
        gaps = (w * (self.right[:, None] - u)).sum(0) / w.sum(0)
        return float((w.sum(0) / len(u) * gaps**2).sum())

    def cwece(self) -> float:
        p = self.p[:, :, None]
        v = p * np.exp(-((p - np.linspace(0, 1, 15)) ** 2) / (2 * 0.1**2))
        total = np.maximum(v.sum(0), 1e-8)
        gaps = (v * (self.one_hot[:, :, None] - p)).sum(0) / total
        return float((total / total.sum(1, keepdims=True) * gaps**2).sum(1).mean())

    def hard_ece(self) -> float:
        return _hard(self.p.max(1), self.right)

    def hard_cwece(self) -> float:
        shares = self.one_hot.mean(0)
        parts = [s * _hard(self.p[:, c], self.one_hot[:, c]) for c, s in enumerate(shares)]
        return float(sum(parts))


def _hard(confidence: NDArray[Any], right: NDArray[Any]) -> float:
    bins = np.maximum(np.ceil(confidence * 15), 1)
    sums = [(right[bins == b] - confidence[bins == b]).sum() for b in range(1, 16)]
    return float(np.abs(sums).sum() / len(right))


def _is(formula: Callable[[Outputs], float], value: float) -> None:
    assert value == pytest.approx(formula(Outputs.at(800)), rel=1e-5)


CHECKS |= {
    "NLL": partial(_is, Outputs.nll),
    "soft ECE": partial(_is, Outputs.ece),
    "soft CwECE": partial(_is, Outputs.cwece),
    "hard ECE": partial(_is, Outputs.hard_ece),
    "hard CwECE": partial(_is, Outputs.hard_cwece),
    "Brier score": partial(_is, Outputs.brier),
    "worst-class accuracy (WC)": partial(_is, Outputs.worst_class),
}
REFUSED = {
    "a probability of 0 is refused": "value: row … 0",
    "no bound without a tolerance": "unsupported: pure-nll",
}


# Rules: the paper's rule once more, on the example's twelve checkpoints.

STEPS = tuple(range(100, 1300, 100))


def _measured(name: str) -> NDArray[np.float64]:
    return np.array([getattr(Outputs.at(step), name)() for step in STEPS])


def by_the_paper(*objectives: str, q: float = inf, delta: float = 0.5, eta: float = 1e-12) -> int:
    accuracy = 100 * _measured("accuracy")
    near = accuracy >= accuracy.max() - delta - 1e-9
    distances = []
    for values in map(_measured, objectives):
        low, high = values[near].min(), values[near].max()
        distances.append((values - low) / (high - low + eta))
    distance = np.linalg.norm(distances, ord=q, axis=0)
    order = sorted((distance[i], -accuracy[i], STEPS[i]) for i in np.flatnonzero(near))
    return order[0][2]


def _lowest(name: str, least: float = 0) -> int:
    values = np.where(_measured("accuracy") >= least - 1e-9, _measured(name), inf)
    return STEPS[int(values.argmin())]


def _chooses(step: Callable[[], int], answer: Any) -> None:
    assert answer["runs"][0]["selection"]["step"] == step()


NC = ("nll", "cwece")
CHOICES: dict[str, Callable[[], int]] = {
    "Source-Acc": lambda: STEPS[int(_measured("accuracy").argmax())],
    "AC-NC, the reference": partial(by_the_paper, *NC),
    "AC-NE": partial(by_the_paper, "nll", "ece"),
    "AC-NEC": partial(by_the_paper, "nll", "ece", "cwece"),
    "AC-ECE": partial(by_the_paper, "ece"),
    "AC-NLL": partial(by_the_paper, "nll"),
    "AC-CwECE": partial(by_the_paper, "cwece"),
    "distance D1": partial(by_the_paper, *NC, q=1),
    "distance D2": partial(by_the_paper, *NC, q=2),
    "distance D∞": partial(by_the_paper, *NC),
    "tolerance δ": partial(by_the_paper, *NC, delta=1),
    "Pareto filter": partial(by_the_paper, *NC),
    "offset η": partial(by_the_paper, *NC, eta=0),
    "AC-early": lambda: 600,
    "pure ECE": partial(_lowest, "ece"),
    "pure CwECE": partial(_lowest, "cwece"),
    "pure NLL": partial(_lowest, "nll"),
    "Wald et al. 2021": partial(_lowest, "ece", 0.92),
    "Wald with a relative threshold is AC-ECE": partial(by_the_paper, "ece"),
}
CHECKS |= {item: partial(_chooses, step) for item, step in CHOICES.items()}


@check("AC-random")
def _drawn_again(answer: Any) -> None:
    chosen = answer["runs"][0]["selection"]
    assert chosen["step"] in chosen["feasible_steps"]
    assert chosen["step"] == cw.select(cw.load(RUN), "ac-random", seed=20260926).step


@check("a checkpoint exactly on the edge of the tolerance is in")
def _on_the_edge(chosen: Any) -> None:
    accuracy = 100 * chosen.trajectory.values["accuracy"][:, 0]
    assert accuracy[1] < accuracy[0] - 0.5  # in floating point
    assert (chosen.feasible_steps, chosen.step) == ((1, 2), 2)


@check("a tie that η decides is named")
def _tie(said: str) -> None:
    assert cw.select(python_names()["tie"]).near_ties == (1,)
    assert said.count("step 1") > 1  # beside "the best, as at step 1"


@check("the loss valley")
def _valley(indices: Any) -> None:
    assert tuple(indices) == (3, 2, 3, 4, 5, 6)  # by hand: converged at 2, dead at 7


# Methods: every one has the four metrics on every run of the study, paired.

RUNS = 18
METHODS = (
    *("AC-mean", "Wald et al., recalibrated before", "Wald et al., by isotonic regression"),
    *("LODO-Acc", "AC-LODO"),
    *("checkpoint-SWAD, BatchNorm re-estimated", "checkpoint-SWAD, buffers kept"),
    *("checkpoint-SWAD as described", "checkpoint-SWAD as described, buffers kept"),
    "the control of SWAD: BatchNorm re-estimated, no average",
    *("dense SWAD", "dense SWAD, buffers kept"),
    *("moving average of weights (SMA)", "ensemble of averages (EoA)"),
    *("DiWA, all runs", "DiWA, runs added greedily"),
    *("temperatures of source domains, averaged", "temperatures of source domains, weighted"),
    *("Lyu et al. 2023, MMD", "Lyu et al. 2023, CORAL distance"),
    *("mixup-guided, by accuracy", "mixup-guided, by loss"),
)


def _in_all_runs(runs: int, rows: list[dict[str, Any]]) -> None:
    assert {row["metric"] for row in rows} >= METRICS
    for row in rows:
        assert row["n"] == runs
        assert row["low"] <= row["mean"] <= row["high"]


CHECKS |= dict.fromkeys(METHODS, partial(_in_all_runs, RUNS))
CHECKS |= dict.fromkeys(("PAIR, last ten", "PAIR, validation filter"), partial(_in_all_runs, 9))


@check("temperature scaling after Source-Acc", "temperature scaling after AC-NC")
def _scaled(rows: list[dict[str, Any]]) -> None:
    _in_all_runs(RUNS, rows)
    changes = {row["metric"]: row["mean"] for row in rows}
    assert changes["target_nll"] != 0
    if rows[0]["rule"] == "source-acc+ts":  # one temperature changes no prediction
        assert changes["target_accuracy"] == 0


def _compares(rules: set[str], reference: str, runs: int, answer: Any) -> None:
    assert answer["reference"] == reference
    assert answer["role"] == "evaluation"
    assert {row["rule"] for row in answer["contrasts"]} == rules
    _in_all_runs(runs, answer["contrasts"])


CHECKS |= {
    "LODO that selects hyperparameters": partial(
        _compares, {"lodo-acc", "ac-lodo"}, "source-acc", RUNS // 3
    ),
    "any rule of your own beside them": partial(_compares, {"ac-nec"}, "ac-nc", RUNS),
    "a role for every cohort": partial(_compares, {"ac-nc"}, "source-acc", RUNS),
    "evaluation data alone": partial(_compares, {"ac-nc"}, "source-acc", RUNS),
}


# Guarantees.


@check("the radius")
def _radius(value: float) -> None:
    assert value == pytest.approx(100 * sqrt(log(2 * 51 / 0.05) / 2 * 3 / 9 / 400))


@check("the radius with weights of the domains")
def _weighted_radius(value: float) -> None:
    spread = 0.75**2 / 400 + 0.25**2 / 300
    assert value == pytest.approx(100 * sqrt(log(2 * 51 / 0.05) / 2 * spread))


@check("the bound of a choice, with its conditions")
def _bound(bound: Any) -> None:
    radius = 100 * sqrt(log(2 * 12 / 0.05) / 2 / 400)
    assert bound.radius_pp == pytest.approx(radius)
    assert bound.bound_pp == pytest.approx(0.5 + 2 * radius)
    assert len(bound.conditions) >= 3


@check("the radius for the worst domain")
def _worst(bound: Any) -> None:
    assert bound.radius_pp == pytest.approx(100 * sqrt(log(2 * 2 * 2 / 0.05) / (2 * 300)))


@check("no source-only rule is best for every target")
def _impossible(said: str) -> None:
    assert "every target" in said


# Training: one update changes the network, and gives a loss.


@check("ERM", "CORAL", "GroupDRO", "IRM", "VREx")
def _learns(algorithm: Any) -> None:
    random = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 8, generator=random), torch.arange(6) % 3
    before = algorithm.predict(x)
    said = algorithm.update([(x, y), (2 * x, y)])
    assert torch.isfinite(said["loss"])
    assert not torch.equal(before, algorithm.predict(x))


@check("the protocol of 540 runs")
def _planned(said: str) -> None:
    assert "540 runs of 5001 updates, a record every 100;" in said
    assert "ERM, CORAL, GroupDRO, IRM, VREx" in said
    assert "PACS (development)" in said
    assert "OfficeHome (evaluation)" in said


@check("identical images left out")
def _without_the_repeat(runs: Any) -> None:
    seen = {
        name: n for run in runs.values() for name, n in zip(run.domains, run.counts, strict=True)
    }
    assert seen == {"art": 29, "photo": 30, "sketch": 30}  # a fifth of 149, 150 and 150


# Tables: what has to be in which column.

HOLDS: dict[str, dict[str, set[Any]]] = {
    "worst held-out domain (WHD)": {"measure": {"whd"}},
    "ordering transfer": {"measure": {"omega", "kept_share"}, "metric": {"accuracy", "nll"}},
    "a rule − Source-Acc": {"measure": METRICS | {"gap_pp"}},
    "δ of 0.1 and 1.0 − δ of 0.5": {"contrast": {"δ = 0.1 − δ = 0.5", "δ = 1.0 − δ = 0.5"}},
    "D∞ − D1": {"contrast": {"D∞ − D1"}},
    "NEC − NC": {"contrast": {"NEC − NC"}, "measure": METRICS},
    "AC-NC − each single objective": {"reference": {"ac-nll", "ac-cwece", "ac-ece"}},
    "NC under three distances on evaluation data": {
        "objectives": {"NC"},
        "distance": {"D1", "D2", "D∞"},
        "role": {"evaluation"},
    },
    "runs that lose a point or more": {"measure": {"lose_1pp", "lose_1pp_share"}},
    "10,000 resamples of run pairs, seed 20260908": {
        "measure": {"target_nll_over_runs"},
        "resamples": {10_000},
        "seed": {20260908},
    },
    "seed 20260924 for tolerances": {"seed": {20260924}, "resamples": {10_000}},
    "seed 20260924 for NEC − NC": {"seed": {20260924}, "resamples": {10_000}},
    "WHD, blocks resampled": {"measure": {"whd"}},
    "WHD, cells resampled": {"measure": {"whd_cells"}},
    "LODO by blocks of seeds": {
        "measure": {"target_nll_by_block", "target_hard_ece_by_block"},
        "hyperparameters": {"fixed", "selected"},
    },
    "temperature scaling by cells": {"unit": {"cells"}, "measure": {"improved_nll"}},
    "main": {"rule": {"source-acc", "ac-nc"}, "measure": METRICS | {"gap_pp"}},
    "dataset × algorithm": {
        "algorithm": {"ERM", "VREx"},
        "measure": METRICS | {"gap_pp", "whd"},
    },
    "distribution of losses": {"measure": {"gain", "equal", "lose", "percentile_5"}},
    "components on source": {
        "rule": {"ac-nll", "ac-cwece", "ac-ece", "ac-nc"},
        "measure": {"source_accuracy", "source_nll", "source_cwece", "whd"},
    },
    "components by dataset": {"measure": METRICS | {"target_worst_class_accuracy", "whd"}},
    "controls": {"rule": {"ac-early", "ac-random", "ac-mean"}},
    "nine objectives × distances": {
        "objectives": {"NC", "NE", "NEC"},
        "distance": {"D1", "D2", "D∞"},
    },
    "tolerance, pooled": {
        "rule": {"δ = 0.1", "δ = 0.5", "δ = 1.0"},
        "measure": METRICS | {"eligible", "gap_pp"},
    },
    "tolerance, by dataset": {"dataset": {"toy"}, "rule": {"δ = 0.1", "δ = 1.0"}},
    "composition of the feasible set": {
        "measure": {
            *("singletons", "multi", "differs", "nondominated_one", "nondominated_many"),
            *("pairs", "pairs_opposed"),
        }
    },
    "disagreement between rules": {"rules": {"ac-nll / ac-cwece", "source-acc / ac-nc"}},
    "pure selection": {
        "rule": {"pure-ece", "pure-cwece", "pure-nll"},
        "measure": {"step", "step_0_share"},
    },
    "variation on the plateau": {"measure": {"range_source_nll", "range_target_cwece"}},
    "rank correlation": {"measure": {"rho", "checkpoints", "valid", "runs"}},
    "SWAD, with median NLL and NLL above 100": {
        "rule": {"swad", "swad-nobn", "swad-as-described"},
        "measure": {"nll_above_100", "target_nll_median"},
    },
    "LODO": {"rule": {"lodo-acc", "ac-lodo"}, "measure": {"target_hard_ece", "target_hard_cwece"}},
    "PAIR": {"rule": {"pair-last10", "pair-valfilter"}, "algorithm": {"VREx"}},
    "temperature scaling": {"rule": {"source-acc+ts", "ac-nc+ts"}},
    "median and trimmed mean beside a mean NLL": {
        "measure": {"target_nll_median", "target_nll_trimmed"}
    },
    "one table for a paper": {"rule": {"ac-nc"}, "measure": METRICS},
    "η = 0": {"variant": {"η = 0"}, "measure": {"choices_changed"}},
    "Kendall's τ as a table": {"measure": {"tau_accuracy", "tau_nll", "tau_ece", "tau_cwece"}},
    "with and without IRM and VREx": {"among": {"all algorithms", "without IRM and VREx"}},
    "does ranking help, or leaving the argmax?": {
        "among": {"all", "|Θ| > 1"},
        "contrast": {"ac-nc − ac-mean"},
    },
    "AC-NC − pure NLL, paired": {"contrast": {"ac-nc − pure-nll"}},
    "effect by learning rate": {"learning rate": {0.001, 0.003, 0.01}},
    "effect by training length": {"until": {10, 103}},
    "choices under other bins and bandwidths": {
        "error": {"B = 10, h = 0.1", "B = 15, h = 0.05"},
        "measure": {"choices_changed"},
    },
    "choices under hard and debiased errors": {"error": {"15 hard bins", "15 hard bins, debiased"}},
    "risk–coverage, as a table": {"measure": {"risk_area", "risk_80"}},
    "cross-fitted validation": {"contrast": {"cross-fitted ac-nc − ac-nc"}},
    "block-level inference and the smallest detectable effect": {
        "clusters of": {"block", "draw"},
        "measure": {"detectable", "change"},
    },
}


def _holds(columns: dict[str, set[Any]], table: pandas.DataFrame) -> None:
    for column, values in columns.items():
        assert values <= set(table[column]), column
    asked = columns.get("measure", set())
    assert np.isfinite(table.loc[table["measure"].isin(asked), "value"]).any() or not asked


CHECKS |= {item: partial(_holds, columns) for item, columns in HOLDS.items()}


@check("after temperature scaling on both sides, with the oracle")
def _both_sides(table: pandas.DataFrame) -> None:
    scaled, oracle = table["contrast"].unique()
    assert "after scaling" in scaled
    assert "oracle" in oracle


@check("the Pareto filter changes nothing but ties")
def _pareto(table: pandas.DataFrame) -> None:
    row = table[(table["variant"] == "Pareto filter") & (table["measure"] == "choices_changed")]
    assert row["value"].item() == 0


# Figures: drawn, and not blank.


@check(
    *("trajectory with the tolerance band", "accuracy against mean distance"),
    *("changes by algorithm", "Kendall's τ by dataset and algorithm"),
    *("confident errors", "shared errors", "risk–coverage, as a curve"),
)
def _drawn(file: Path) -> None:
    from matplotlib.image import imread

    assert np.ptp(imread(file)) > 0
    assert file.with_suffix(".pdf").stat().st_size > 1000


@check("occlusion")
def _occluded(folder: Path) -> None:
    _drawn(folder / "occlusion.png")


def test_every_item_has_one_row_and_one_check() -> None:
    assert len(ROWS) == sum(len(rows) for _, rows in SECTIONS.values())
    assert set(ROWS) == {*CHECKS, *REFUSED}
    assert len(SECTIONS) == 11
    for name, (count, rows) in SECTIONS.items():
        assert count == len(rows), name
    assert PAGE.read_text().count("\n| ") == len(ROWS) + len(SECTIONS)  # rows and heads, no others


@pytest.mark.parametrize("item", ROWS)
def test_an_item_of_the_paper(item: str, studies: Studies) -> None:
    if item in REFUSED:
        with refused(REFUSED[item]):
            studies.run(ROWS[item])
    else:
        CHECKS[item](studies.run(ROWS[item]))
