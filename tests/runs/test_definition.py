"""What a study says is held against what its runs can have."""

from dataclasses import replace

import pytest
from own_studies import ONE, SMALL, start

from rb_interp.errors import StudyError


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sweep": "firts"}, "the sweep 'firts'; known: '' "),
        ({"gamma": 0.08}, r"about gamma 0.08; no preset trains it, but \[0.5, 0.8\]"),
        ({"probe": "sizes"}, "the probe 'sizes'; did you mean 'size'"),
    ],
)
def test_a_misspelt_claim_is_refused_before_there_is_a_folder(change, message, tmp_path):
    (claim,) = ONE.claims
    wrong = replace(claim.context[0], **change)
    for misspelt in (
        replace(claim, context=(wrong,)),
        replace(claim, conditions=(replace(claim.conditions[0], of=wrong),)),
    ):
        study = replace(ONE, claims=(misspelt,), quantities={"size": "norm"})
        with pytest.raises(StudyError, match=f"claim S1 of study 'one' (names )?(is )?{message}"):
            start(tmp_path / "run", SMALL, study)
    assert not (tmp_path / "run").exists()
    other = replace(
        claim,
        context=(replace(wrong, gamma=0.5, probe="mine", quantity="x", set="grid", stage="early"),),
    )
    if "sweep" not in change:
        replace(ONE, claims=(other,), quantities={"size": "norm"}).check_claims(SMALL)
