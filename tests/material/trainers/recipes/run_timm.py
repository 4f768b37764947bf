"""timm: ``summary.csv`` and ``checkpoint-N.pth.tar``, with the calls of its ``train.py``."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import torch
from timm.models import resume_checkpoint
from timm.utils import AverageMeter, CheckpointSaver, accuracy, update_summary
from torch import nn

from tests.material.trainers.recipes.account import Account, keep
from tests.material.trainers.recipes.digits import Part, digits

VERSIONS = ("timm", "torch")
EPOCHS = 12
Metrics = OrderedDict[str, float]


def make(work: Path, into: Path) -> None:
    """All cases: train.py keeps the ten best checkpoints by default."""
    for name, max_history in (("plain", 10), ("three_kept", 3)):
        account = _account(work / name)
        _session(account, max_history=max_history)
        keep(work / name, into / name, runs=[account], logs=["summary.csv"])
    account = _account(work / "resumed")
    _session(account, epochs=8)
    account.resume(step=180)
    _session(account, resume="checkpoint-5.pth.tar")
    keep(account.root, into / "resumed", runs=[account], logs=["summary.csv"])


def _account(case: Path) -> Account:
    case.mkdir()
    return Account(
        case,
        "summary.csv",
        "checkpoint-*.pth.tar",
        n={"validation": len(digits()[1])},
        moving=["model_best.pth.tar", "last.pth.tar"],
    )


def _session(
    account: Account, *, epochs: int = EPOCHS, max_history: int = 10, resume: str = ""
) -> None:
    """One start of train.py; a second one in the same folder goes on with the same log."""
    training, validation, _ = digits()
    torch.manual_seed(1 if resume else 0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.04)
    start_epoch = 0
    if resume:
        start_epoch = resume_checkpoint(model, str(account.root / resume), optimizer)
    saver = CheckpointSaver(
        model=model,
        optimizer=optimizer,
        checkpoint_dir=str(account.root),
        recovery_dir=str(account.root),
        decreasing=False,
        max_history=max_history,
    )
    best_metric = None
    for epoch in range(start_epoch, epochs):
        train_metrics = _one_epoch(model, optimizer, training)
        eval_metrics = _validate(model, validation)
        lrs = [group["lr"] for group in optimizer.param_groups]
        update_summary(
            epoch,
            train_metrics,
            eval_metrics,
            filename=str(account.root / "summary.csv"),
            lr=sum(lrs) / len(lrs),
            write_header=best_metric is None,
            log_wandb=False,
        )
        scores = {"accuracy": eval_metrics["top1"] / 100, "loss": eval_metrics["loss"]}
        steps = (epoch + 1) * (len(training) // 8)
        account.evaluated(step=steps, epoch=epoch, scores={"validation": scores})
        best_metric, _ = saver.save_checkpoint(epoch, metric=eval_metrics["top1"])


def _one_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, part: Part) -> Metrics:
    losses = AverageMeter()
    for rows in torch.randperm(len(part)).split(8):
        loss = nn.functional.cross_entropy(
            model(torch.from_numpy(part.x)[rows]), torch.from_numpy(part.y)[rows]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), len(rows))
    return OrderedDict([("loss", losses.avg)])


@torch.no_grad()
def _validate(model: nn.Module, part: Part) -> Metrics:
    """Averages of batches, in percent, as ``validate`` in train.py returns them."""
    losses, top1, top5 = AverageMeter(), AverageMeter(), AverageMeter()
    for rows in torch.arange(len(part)).split(128):
        target = torch.from_numpy(part.y)[rows]
        output = model(torch.from_numpy(part.x)[rows])
        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(nn.functional.cross_entropy(output, target).item(), len(rows))
        top1.update(acc1.item(), len(rows))
        top5.update(acc5.item(), len(rows))
    return OrderedDict([("loss", losses.avg), ("top1", top1.avg), ("top5", top5.avg)])
