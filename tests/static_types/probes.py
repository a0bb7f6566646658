# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Every probe has its whole signature: pyright reads this file, nothing runs it.

Each line with ``pyright: ignore`` has a mistake. If a checker accepted it, pyright would report the
comment as unnecessary. A test compares the calls with the public names.
"""

import numpy as np

import rb_interp as rb
from rb_interp import probes
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.chain import ChainInputs

Counts = dict[str, np.ndarray]


def unknown_arguments(
    model: HookedModel, inputs: rb.Inputs, chains: ChainInputs, numbers: np.ndarray, counts: Counts
) -> None:
    """One argument of each call is misspelt."""
    probes.attention(model, inputs, qurey="last")  # pyright: ignore[reportCallIssue]
    probes.attention_by_role(model, inputs, lyaer=1)  # pyright: ignore[reportCallIssue]
    probes.attention_to_key(model, inputs, heads=1)  # pyright: ignore[reportCallIssue]
    probes.chain_accuracy(model, chains, n_nulls=5)  # pyright: ignore[reportCallIssue]
    probes.condensation(model, inputs, matrix=["W_K"])  # pyright: ignore[reportCallIssue]
    probes.cosines_by_target(model, inputs, hook="hook_embed", rows=numbers)  # pyright: ignore[reportCallIssue]
    probes.embedding_rank(model, counts=counts, coutns=counts)  # pyright: ignore[reportCallIssue]
    probes.geometry(model, inputs, like=["key"])  # pyright: ignore[reportCallIssue]
    probes.head_circuits(model, heads=1)  # pyright: ignore[reportCallIssue]
    probes.label_range(model, inputs, groups=numbers, ranges=[(0, 1)], group=numbers)  # pyright: ignore[reportCallIssue]
    probes.lattice(model, inputs, step=[3])  # pyright: ignore[reportCallIssue]
    probes.logit_lens(model, inputs, scales="own")  # pyright: ignore[reportCallIssue]
    probes.next_token(model, inputs, counts=counts, length=numbers)  # pyright: ignore[reportCallIssue]
    probes.token_similarity(model, counts=counts, draws=5)  # pyright: ignore[reportCallIssue]
    probes.uniformity(model, inputs, count=numbers)  # pyright: ignore[reportCallIssue]
    probes.value_alignment(model, inputs, groupings={})  # pyright: ignore[reportCallIssue]
    probes.variance_explained(model, inputs, groups={})  # pyright: ignore[reportCallIssue]
    probes.weight_rank(model, head=0)  # pyright: ignore[reportCallIssue]
    probes.weight_spectra(model, matrices=[])  # pyright: ignore[reportCallIssue]


def mistyped_arguments(
    model: HookedModel, inputs: rb.Inputs, chains: ChainInputs, numbers: np.ndarray, counts: Counts
) -> None:
    """One argument of each call is of another kind."""
    probes.attention(model, inputs, query=3)  # pyright: ignore[reportArgumentType]
    probes.attention_by_role(model, inputs, layer="1")  # pyright: ignore[reportArgumentType]
    probes.attention_to_key(model, inputs, head="1")  # pyright: ignore[reportArgumentType]
    probes.chain_accuracy(model, chains, n_null="5")  # pyright: ignore[reportArgumentType]
    probes.condensation(model, inputs, matrices=2)  # pyright: ignore[reportArgumentType]
    probes.cosines_by_target(model, inputs, hook="hook_embed", role=2)  # pyright: ignore[reportArgumentType]
    probes.embedding_rank(model, counts=3)  # pyright: ignore[reportArgumentType]
    probes.geometry(model, inputs, clusters=2)  # pyright: ignore[reportArgumentType]
    probes.head_circuits(model, head="1")  # pyright: ignore[reportArgumentType]
    probes.label_range(model, inputs, groups=numbers, ranges=3)  # pyright: ignore[reportArgumentType]
    probes.lattice(model, inputs, steps=3)  # pyright: ignore[reportArgumentType]
    probes.logit_lens(model, inputs, scale="last")  # pyright: ignore[reportArgumentType]
    probes.next_token(model, inputs, counts=counts, lengths="5")  # pyright: ignore[reportArgumentType]
    probes.token_similarity(model, counts=counts, n_draws="5")  # pyright: ignore[reportArgumentType]
    probes.uniformity(model, inputs, queries="all")  # pyright: ignore[reportArgumentType]
    probes.value_alignment(model, inputs, contrast=3)  # pyright: ignore[reportArgumentType]
    probes.variance_explained(model, inputs, groupings=3)  # pyright: ignore[reportArgumentType]
    probes.weight_rank(model, layer="0")  # pyright: ignore[reportArgumentType]
    probes.weight_spectra(model, untrained=3)  # pyright: ignore[reportArgumentType]


def missing_arguments(model: HookedModel) -> None:
    """A probe of activations needs rows, and every probe a model."""
    probes.attention(model)  # pyright: ignore[reportCallIssue]
    probes.uniformity(model)  # pyright: ignore[reportCallIssue]
    probes.weight_rank()  # pyright: ignore[reportCallIssue]
