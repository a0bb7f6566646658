"""What the anchor study says of a run: tables as data equal the evidence's numbers."""

from dataclasses import replace

import pytest
from synthetic_evidence import make_evidence, with_tables

from rb_interp.claims import Calibration
from rb_interp.report.section import Choice, Paragraph, Table
from rb_interp.studies.anchor.error_rates import shipped_rates
from rb_interp.studies.anchor.report import calibration, narrative
from rb_interp.studies.anchor.report_causes import ablations, causes

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def evidence():
    return make_evidence(seeds=2)


def numbers(text: str) -> list[float]:
    """Mean and ends of ``mean [low, high]``."""
    return [float(part.strip("[],").replace("−", "-").replace(",", "")) for part in text.split()]


def test_causes_stand_beside_the_claims_own_verdicts(evidence):
    (table,) = (block for block in causes(evidence) if isinstance(block, Table))
    effects = evidence.tables["effects"]
    pairs = zip(table.rows[::2], table.rows[1::2], strict=True)
    for check, (what, cells) in zip(evidence.checks, pairs, strict=True):
        claim, done, outcome, own = what.cells
        assert (claim.text, claim.link) == (check.of, f"claim-{check.of}")
        assert (outcome.verdict, own.verdict) == (check.verdict.outcome, evidence.verdicts[check.of].outcome)
        assert done.notes[0] == f"Refuted if {check.refuted_if}."
        for note, judged in zip(done.notes[1:-1], check.verdict.conditions, strict=True):
            assert note.startswith(f"Judged: {judged.criterion}. It is ")
            assert numbers(note.split(" It is ")[1].split(";")[0])[0] == pytest.approx(judged.effect, abs=0.0051)
            assert note.endswith(f"; {judged.n_meeting} of {judged.n_seeds} seeds meet it.")
        early = check.verdict.stage != "final"
        for cell, gamma in zip(cells.cells, evidence.gammas, strict=True):
            stage = "final" if not early else "half" if gamma == 0.8 else "matched"
            here = effects[(effects["intervention"] == check.intervention) & (effects["set"] == check.set)]
            here = here[(here["gamma"] == gamma) & (here["stage"] == stage)]
            assert numbers(cell.text)[0] == pytest.approx(here["effect"].mean(), abs=0.0051)
            control = cell.notes[0].removeprefix("control ")
            assert numbers(control)[0] == pytest.approx(here["control"].mean(), abs=0.0051)
            assert cell.notes[1] == f"{stage}, 2 seeds"


def test_ablations_are_means_over_seeds_for_every_method(evidence):
    (choice,) = (block for block in ablations(evidence) if isinstance(block, Choice))
    table, sets = evidence.tables["ablations"], ("mem", "rsn_train", "rsn_test")
    methods = dict(zip(choice.options, ("resample", "mean", "zero"), strict=True))
    places = [(c, s) for c in ("attn_out.0", "mlp_out.0", "attn_out.1", "mlp_out.1") for s in sets]
    for words, method in methods.items():
        for (component, name), row in zip(places, choice.options[words].rows, strict=True):
            assert row.cells[0].colour == name
            here = table[(table["component"] == component) & (table["set"] == name)]
            for cell, gamma in zip(row.cells[1:], evidence.gammas, strict=True):
                member = here[(here["method"] == method) & (here["gamma"] == gamma)]
                lost, before = cell.text.split(" of ")
                assert numbers(lost)[0] == pytest.approx(member["accuracy_drop"].mean(), abs=0.0051)
                whole = (member["accuracy"] + member["accuracy_drop"]).mean()
                assert numbers(before)[0] == pytest.approx(whole, abs=0.0051)
                control = cell.notes[0].removeprefix("control ")
                assert numbers(control)[0] == pytest.approx(member["control_accuracy_drop"].mean(), abs=0.0051)


def test_error_rates_are_those_of_the_table(evidence):
    rows = shipped_rates().to_dict("records")
    poor = {"true_positive_rate": 0.71, "true_positive_low": 0.65, "true_positive_high": 0.77, "n_positive": 240}
    poor |= {"worst_positive": "peaked_averager", "worst_positive_rate": 0.1, "calibrated": False}
    changed = [{**row, **poor} if row["detector"] == "M4" else row for row in rows]
    changed = [{**row, "n_negative": 0} if row["detector"] == "M5" else row for row in changed]
    known = replace(evidence, meta={"calibration": Calibration("norm none", {}, changed)})
    (table,) = (block for block in calibration(known) if isinstance(block, Table))
    by_name = {row.cells[0].text: row.cells for row in table.rows}
    assert list(by_name) == [row["detector"] for row in rows]
    first = rows[0]
    low = f"[{first['true_positive_low']:.2f}, {first['true_positive_high']:.2f}]"
    good = by_name[first["detector"]]
    assert good[1].text == f"{first['true_positive_rate']:.2f} {low}"
    assert (good[1].notes, good[-1].badge) == ((f"of {first['n_positive']} models",), "yes")
    assert (by_name["M4"][1].text, by_name["M4"][1].notes) == ("0.71 [0.65, 0.77]", ("of 240 models",))
    assert (by_name["M4"][4].text, by_name["M4"][4].notes) == ("peaked averager", ("0.10",))
    assert by_name["M4"][-1].badge == "no"
    assert by_name["M5"][2].text == "no such model"
    trained = replace(
        evidence, meta={"calibration": Calibration("norm none", {}, rows, [{**first, "source": "gauge"}])}
    )
    _, second = (block for block in calibration(trained) if isinstance(block, Table))
    assert [cell.text for cell in second.rows[0].cells[:3]] == ["gauge", first["detector"], good[1].text]
    unknown = replace(evidence, meta={"calibration": Calibration("norm post", {}, [])})
    assert [block.text for block in calibration(unknown)][1] == (
        "This family of models (norm post) has no table of error rates: it is not calibrated."
    )


def test_circuits_and_learning_order_are_those_of_the_tables(evidence):
    told = narrative(evidence)
    circuits, _, _, order = told.sections
    counts = evidence.tables["circuit_counts"]
    by_cause, by_attention = (block for block in circuits.blocks if isinstance(block, Table))
    for table, named_by in ((by_attention, "attention"), (by_cause, "cause")):
        for row, gamma in zip(table.rows, evidence.gammas, strict=True):
            here = counts[(counts["gamma"] == gamma) & (counts["named_by"] == named_by)]
            assert [cell.text for cell in row.cells] == [f"{gamma:g}", *map(str, here["n"]), "2"]
    mixed = next(cell for name, cell in zip(by_cause.columns, row.cells, strict=True) if name == "mixed")
    assert mixed.notes == ("0 [0, 0.842]",)  # 1 - .025 ** (1 / 2)
    paragraphs = [block.text for block in circuits.blocks if isinstance(block, Paragraph)]
    changed = evidence.tables["circuits"].assign(circuit="mixed")
    other = narrative(replace(evidence, tables=with_tables(evidence, circuits=changed)))
    assert any("is not their name by cause: 0 of 2 at γ = 0.3 (0.00 [0.00, 0.84])" in text for text in paragraphs)
    texts = [block.text for block in other.sections[0].blocks if isinstance(block, Paragraph)]
    assert any("2 of 2 at γ = 0.8 (1.00 [0.16, 1.00])" in text for text in texts)
    assert any(f"average-then-key {here['n'].iloc[0]}" in sentence for sentence in told.answer)
    bias = order.blocks[0].rows[0].cells
    for cell, gamma in zip(bias[1:], evidence.gammas, strict=True):
        expected = evidence.values("learning_order", "bias", gamma).mean()
        assert numbers(cell.text)[0] == pytest.approx(expected, rel=0.006)
