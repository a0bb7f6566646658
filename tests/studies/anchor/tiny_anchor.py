"""Settings of tiny runs of the anchor study."""

from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig

TINY = {
    "gammas": (0.3, 0.5, 0.8),
    "seeds": (0, 1),
    "task": AnchorTask(
        length=6,
        keys=(21, 24),
        memory_anchors=(1, 2),
        reasoning_anchors=(11, 13),
        d_vocab=80,
        n_sequences=1800,
    ),  # few labels, so that half is reached before the end
    "train": TrainConfig(
        steps=80,
        batch_size=16,
        eval_every=5,
        eval_rows=20,
        lr=2e-2,
        n_checkpoints=1,
        stages=("half",),
    ),
    "probe_rows": 60,
    "n_null": 20,
    "n_init": 10,
}
