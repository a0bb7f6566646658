"""Columns of the tables that studies measure, by study, to which runs are held.

Columns before the bar tell the rows of a table apart. Types as in
``rb_interp.runs.results.frame``.
"""

from collections.abc import Collection, Sequence

import pandas as pd

from rb_interp.runs import Run
from rb_interp.runs.results import frame

OVER_SEEDS = "mean low high n median lowest highest"
EVERY_STUDY = {
    "curves": "sweep gamma seed step set | loss accuracy",
    "readings": (
        "sweep gamma seed stage step set probe layer head quantity | value untrained null "
        "null_mean null_sd p_value n "
        "reached"
    ),
    "summary": f"sweep gamma stage set probe layer head quantity | {OVER_SEEDS} untrained n_reached:int",
    "curves_summary": f"sweep gamma step set quantity | {OVER_SEEDS}",
}
COLUMNS = {
    "anchor": {
        "circuits": (
            "gamma seed | circuit:str cause:str tv_half key_attention anchor_attention carry "
            "accuracy "
            "key_from_key anchors_L0_at_last key_from_last_anchor first_anchors_from_last_anchor "
            "key_from_anchors anchors_from_anchors"
        ),
        "circuit_counts": "gamma named_by:str circuit:str | n total:int share low high",
        "effects": (
            "gamma seed stage set intervention:str | quantity step site:str effect low high "
            "control "
            "control_low control_high difference difference_low difference_high p_value "
            "control_name:str "
            "before after answered n reached"
        ),
        "ablations": (
            "gamma seed stage set component method:str | accuracy accuracy_drop loss_increase "
            "control_accuracy_drop control_loss_increase n reached"
        ),
        "patching": (
            "gamma seed stage counterfactual:str component layer:int role:str | recovered low high "
            "control n reached"
        ),
        "carried": (
            "gamma seed role:str answer:str | share low high p_value explains:bool noise_redrawn self "
            "random_sites random_subspaces n"
        ),
        "dynamics": "gamma seed step quantity | value",
        "events": "gamma seed event:str | event_of:str step:float censored:bool",
        "event_order": (
            "gamma circuit:str mechanism:str loss:str | n n_both:int n_first:int n_after:int "
            "log2_ratio low "
            "high n_never:int n_loss_never:int"
        ),
        "disagreement": "battery:str gamma seed_a:int seed_b:int | circuit_a:str circuit_b:str disagreement n",
        "disagreement_means": "battery:str gamma circuit_a:str circuit_b:str | mean smallest largest n",
        "equivalence": (
            "battery:str gamma | groups:str within between difference p_value n_relabelings:int "
            "exact:bool "
            "n_members:int"
        ),
        "battery_accuracy": "battery:str gamma seed | circuit:str accuracy second_accuracy n",
    },
    "labels": {
        "in_range": "sweep gamma seed step group:int | low:int high:int inside pooled accuracy",
        "outputs": "gamma seed group:int label:int | low:int high:int probability",
    },
    "emb-mlp": {
        "agreement": "sweep gamma seed group prediction:str metric:str | step:float fraction at_first:bool back",
        "drift": (
            "sweep gamma seed step group prediction:str | leaving:bool fraction cos r2 cos_raw "
            "r2_raw r2_permuted"
        ),
        "exponents": "gamma seed | exponent predicted",
        "inner_products": "gamma seed d_model:int | error size",
        "inner_products_summary": "gamma d_model:int | mean by_eq_13 relative n",
        "label_cosines": "group labels:str token:int other:int | cos",
        "label_cosines_summary": "group labels:str | mean n",
        "label_distributions": (
            "seed token:int label:int | group population empirical population_excess "
            "empirical_excess"
        ),
        "lemma_1": "gamma d_model:int | n_init:int n_within:int share low high tolerance",
        "lemma_1_reached": "d_model:int | gamma",
        "value_flow": "sweep gamma seed step | leaving:bool fraction cos r2 cos_direction share_leading",
    },
    "language": {
        "chains": (
            "gamma seed step example:int | hops:int right:bool prompt:str written:str expected:str"
        ),
        "corpora": "seed corpus:str | source:str documents:int tokens:int stand_in:str entropy",
        "similarity": (
            "gamma seed step | cos_prontoqa cos_stories cos_control cos_in_range cos_counterpart "
            "difference "
            "difference_control difference_counterpart difference_centred "
            "difference_control_centred "
            "difference_counterpart_centred"
        ),
        "skills": "gamma seed step hops:int accuracy_of:str | accuracy n",
        "token_intervals": "gamma seed stage step quantity | low high reached",
        "tokens": (
            "seed token:int | text:str corpus:str count_prontoqa:int count_stories:int ratio "
            "control:bool "
            "counterpart:int"
        ),
    },
    "composite": {
        "phases": (
            "gamma seed | phase:str flow:str I S O I_early S_early acc_train acc_seen_train "
            "acc_seen_test n_pairs:int"
        ),
        "answers": "gamma seed difference:int | count:int share",
        "by_position": "gamma seed position:int | I S n",
        "eigenvalues": "gamma seed step rank:int | eigenvalue",
    },
    "addition-and-scan": {},
    "composite-map": {
        "members": "sweep gamma seed | phase:str I S O I_early S_early acc_train acc_seen_train acc_seen_test",
        "cells": "axis:str point gamma phase:str | label:str sweep n total:int share low high",
        "boundaries": "axis:str point | label:str sweep gamma_star low high crossing:int n:int",
    },
}


def table_of(columns: str, rows: Sequence = ()) -> pd.DataFrame:
    """A table of these columns."""
    return frame(list(rows), columns.replace(" |", ""))


def keys(columns: str) -> list[str]:
    """The columns that tell rows apart."""
    return list(table_of(columns.partition(" |")[0]))


def check_run(run: Run, since: Collection[str] = ()) -> None:
    """Assert that the tables of a measured run are those of its study, with its columns and types,
    and no row twice.

    Columns ``since`` a run was kept may be missing.
    """
    known = {**EVERY_STUDY, **COLUMNS[run.study.name]}
    for name, text in run.study.tables.items():
        assert keys(known[name]) == text.split(), name
    for name in run.table_keys:
        table = run.table(name)
        wanted = table_of(known[name])
        wanted = wanted.drop(columns=[one for one in since if one in wanted and one not in table])
        assert set(table) == set(wanted), (name, set(table) ^ set(wanted))
        for column in wanted:
            found = table[column]
            if not (found.isna().all() and wanted[column].dtype.kind in "Of"):
                kind = "O" if pd.api.types.is_string_dtype(found.dropna()) else found.dtype.kind
                assert wanted[column].dtype.kind == kind, (name, column, found.dtype)
        assert not table.duplicated(keys(known[name])).any(), name
