"""The memoriser, written on a blueprint, has its table of labels by heart."""

import torch

from rb_interp.models.reference import reference
from rb_interp.tasks import SETS
from rb_interp.tasks.anchor import AnchorTask


def accuracy(model, data, kind) -> float:
    rows = data.sample(kind, 200)
    with torch.no_grad():
        logits = model(torch.as_tensor(data.tokens[rows]).long())[:, -1]
    return float((logits.argmax(-1).numpy() == data.labels[rows]).mean())


def test_the_memoriser_knows_the_labels_of_one_seed():
    smoke = AnchorTask.preset("smoke")
    model = reference("memoriser", smoke, seed=1, label_seed=2).model()
    assert accuracy(model, smoke.dataset(2), "mem") == 1
    assert accuracy(model, smoke.dataset(1), "mem") < 0.3
    assert reference("memoriser", smoke, seed=3).label_seed == 3
    one = AnchorTask(q=1, masked=((13,),), n_sequences=4000)
    model = reference("memoriser", one).model()
    assert [accuracy(model, one.dataset(0), kind) for kind in SETS] == [1, 1, 0]
