"""Interventions say the truth about a trained model whose previous-token head and induction heads
are known.

Both induction heads look for what followed the query's token, and either alone is enough.
"""

from functools import cache

import numpy as np
import pytest
from induction import INDUCTION, OTHER, PREVIOUS, known, rows

from rb_interp.interventions import ablation, patching_effect, path_matrix
from rb_interp.tasks import Inputs

HEADS = [f"z.{layer}.{head}@query" for layer, head in INDUCTION]
BACK, ASIDE = (f"z.{layer}.{head}" for layer, head in (PREVIOUS, OTHER))


@cache
def clean():
    return rows().take(np.arange(64))


@cache
def traded(role):
    """The rows in which the token of a role and another one of the block trade names, but for the
    query."""
    tokens, places, at = clean().tokens, clean().roles.positions, np.arange(64)
    one, other = tokens[at, places[role][:, 0]][:, None], tokens[at, places["other"][:, 1]][:, None]
    changed = np.where(tokens == one, other, np.where(tokens == other, one, tokens))
    changed[:, -1] = tokens[:, -1]
    here, follows = np.nonzero(changed[:, :7] == changed[:, -1:])[1], changed[at]
    return Inputs(changed, follows[at, here + 1], clean().roles)


def share(sites, **given):
    return patching_effect(known().model, clean(), traded("second"), sites, **given).values.mean()


def test_heads_that_stand_in_for_each_other_lose_the_answer_together_alone():
    model = known().model
    lost = [ablation(model, clean(), sites).values.mean() for sites in (*HEADS, HEADS, BACK, ASIDE)]
    assert max(lost[:2]) < 0.05
    assert min(lost[2:4]) > 0.6
    assert lost[4] < 0.2


@pytest.mark.parametrize("direction", ["denoise", "noise"])
def test_what_followed_the_query_travels_in_the_values_of_both(direction):
    for sites in (HEADS, "v.1@second", "embed@second"):
        assert share(sites, direction=direction) == pytest.approx(1, abs=0.05)
    assert sum(share(site, direction=direction) for site in HEADS) == pytest.approx(1, abs=0.05)
    assert share(f"{BACK}@second", direction=direction) == pytest.approx(0, abs=0.05)


def test_where_the_query_stood_travels_from_the_previous_token_head_to_the_keys():
    pair = traded("first"), clean()
    senders = [f"{BACK}@second", f"{ASIDE}@second", "embed@second"]
    matrix = path_matrix(known().model, *pair, senders, ["k.1@second", "v.1@second", "q.1@query"])
    strongest = np.unravel_index(np.nanargmax(matrix.values), matrix.values.shape)
    assert (senders[strongest[0]], matrix.axes["receiver"][strongest[1]]) == (
        f"{BACK}@second",
        "k.1@second",
    )
    assert (
        np.nanmax(np.abs(np.delete(matrix.values.ravel(), np.ravel_multi_index(strongest, (3, 3)))))
        < 0.3
    )
