"""Claims of the installed studies are about what their study reads."""

from dataclasses import replace

import pytest
from quantities import KEPT, joined, read_quantities

from rb_interp.errors import StudyError
from rb_interp.runs.run import Run
from rb_interp.runs.studies import study

LARGER = {
    "composite-map": {"map": {"order", "fit_rise"}},
    "language": {"decisive": {"gap_0.6", "gap_1", "same_sign"}},
}
"""Study -> probe -> what it declares and the stored readings lack: that needs more rates, repeated
rows, or several numbers of facts."""


@pytest.mark.parametrize("name", KEPT)
def test_a_study_declares_the_quantities_that_it_reads(name):
    """``python tests/quantities.py`` adds what is missing."""
    declared = study(name).known_quantities()
    read = read_quantities(name)
    assert joined(declared, read) == declared
    for probe, quantities in joined({}, read).items():
        unread = LARGER.get(name, {}).get(probe, set())
        assert set(declared[probe]) - set(quantities) == unread, probe


@pytest.mark.parametrize("name", KEPT)
def test_every_claim_is_about_a_quantity_that_its_study_reads(name):
    asked = study(name)
    for preset in asked.load("config").PRESETS:
        asked.check_claims(asked.preset(preset))


@pytest.mark.parametrize(
    ("name", "probe", "quantity", "hint"),
    [
        ("anchor", "attention_by_role", "keys", "did you mean 'key'"),
        ("labels", "label_range", "inside", "did you mean 'inside_1'"),
        (
            "composite",
            "interchange_roles",
            "L1's attention at first:base",
            "did you mean 'L0's att",
        ),
        ("emb-mlp", "geometry", "none such", "known: abs_cos, "),
    ],
)
def test_an_unknown_quantity_is_refused_before_there_is_a_folder(
    name, probe, quantity, hint, tmp_path
):
    """It was seen after the training, as a claim that is NOT JUDGED."""
    asked = study(name)
    claim = asked.load("claims")[0]
    wrong = replace(claim, context=(replace(claim.terms[0], probe=probe, quantity=quantity),))
    with pytest.raises(StudyError, match=f"claim {claim.id} of .* names the quantity .*{hint}"):
        Run.start(tmp_path / "run", replace(asked, claims=(wrong,)), asked.preset("smoke"))
    assert not (tmp_path / "run").exists()
