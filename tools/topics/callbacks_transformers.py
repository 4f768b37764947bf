"""The callback of transformers: chosen, kept on disk, recorded, and loaded at the end.

The model has one weight, the step: its loss falls by 1 with every step at a learning rate of 1.
Its logits are looked up by step, so that every commit sees the same checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import Dataset

from topics import small
from topics.run_folder import contents

if TYPE_CHECKING:
    from ask import Side

SETTINGS: dict[str, dict[str, Any]] = {
    "transformers": {"delta_pp": 0.5},
    "transformers-wide": {"delta_pp": 3.0},
    "transformers-nll": {"rule": "ac-nll"},
}
EVERY = 10


def answers(side: Side) -> Iterator[tuple[str, object]]:
    import transformers
    from transformers.modeling_outputs import SequenceClassifierOutput

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    sets = {domain: small.examples(domain) for domain in small.DOMAINS}
    inputs = torch.cat([x for x, _ in sets.values()])
    table = [model(inputs).detach() for _, model in small.training()]

    class Config(transformers.PretrainedConfig):  # type: ignore[misc, unused-ignore]
        model_type = "same-answers"

    class Scripted(transformers.PreTrainedModel):  # type: ignore[misc, unused-ignore]
        config_class = Config
        main_input_name = "example"

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.step = torch.nn.Parameter(torch.zeros(1))
            self.post_init()

        def _init_weights(self, module: Any) -> None:
            pass

        def forward(self, example: Any, labels: Any = None) -> Any:
            row = max(round(float(self.step.detach())) // EVERY - 1, 0)
            loss = -self.step.sum() + 0.0 * example.float().mean()
            return SequenceClassifierOutput(loss=loss, logits=table[row][example])

    callback_of = side.public("checkwise.integrations.transformers:ReliabilityCallback")
    labels = {domain: y for domain, (_, y) in sets.items()}
    for name, settings in SETTINGS.items():
        folder = Path("callbacks") / name
        callback = callback_of(**settings)
        model = Scripted(Config())
        trainer = transformers.Trainer(
            model=model,
            args=arguments(transformers, folder),
            train_dataset=Rows(labels["photo"]),
            eval_dataset={
                "photo": Rows(labels["photo"]),
                "sketch": Rows(labels["sketch"], first=len(labels["photo"])),
            },
            compute_metrics=callback.compute_metrics,
            callbacks=[callback],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        state = trainer.state
        chosen = {"step": callback.selection.step, "loaded": round(float(model.step.detach()))}
        best = {"metric": state.best_metric, "path": Path(state.best_model_checkpoint or "").name}
        yield name, {**chosen, "best": best, **contents(side, folder)}


def arguments(transformers: Any, folder: Path) -> Any:
    return transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=120,
        per_device_train_batch_size=2,
        per_device_eval_batch_size=64,
        optim="sgd",
        learning_rate=1.0,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=EVERY,
        save_steps=EVERY,
        logging_steps=10_000,
        load_best_model_at_end=True,
        metric_for_best_model="checkwise",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        remove_unused_columns=False,
    )


class Rows(Dataset[Any]):
    """Examples by their numbers."""

    def __init__(self, labels: Any, first: int = 0) -> None:
        self.labels, self.first = labels, first

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"example": self.first + index, "labels": int(self.labels[index])}
