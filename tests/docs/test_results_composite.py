"""The page of results of the composite study quotes the tables that are kept."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rb_interp.runs.run import Run
from rb_interp.training.schedule import learning_rate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results_composite.md").read_text()
NUMBER = r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]"


TEXT = " ".join(PAGE.split())


def says(*phrases):
    """The page has the words that a test compares with the tables."""
    assert [phrase for phrase in phrases if phrase not in TEXT] == []


@pytest.fixture(scope="module")
def run():
    return Run.open(ROOT / "results" / "composite_quick")


def test_every_verdict_is_quoted_with_its_number(run):
    rows = re.findall(r"^\| ([A-Z]\d+m?) .*? \| ([A-Z ]+): (\d+)/(\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    assert [(name, outcome, int(k), int(n)) for name, outcome, k, n, _ in rows] == [
        (verdict.id, verdict.outcome, verdict.n_meeting, verdict.n_seeds) for verdict in run.verdicts
    ]
    for name, *_, number in rows:
        fewest = min(run.verdicts[name].conditions, key=lambda condition: condition.n_meeting)
        if number == "n/a":
            assert fewest.effect is None
        else:
            told = [float(part) for part in re.findall(NUMBER, number)[-1]]
            assert told == pytest.approx([fewest.effect, fewest.low, fewest.high], abs=0.0051), name


def test_phases_and_flows_are_quoted(run):
    rows = re.findall(r"^\| ([\d.]+) \| (\w+) \| ([\w ]+) \| (\d+) \|$", PAGE, re.MULTILINE)
    counts = run.table("phase_counts")
    assert [(float(gamma), phase, flow, int(n)) for gamma, phase, flow, n in rows] == list(
        counts[["gamma", "phase", "flow", "n"]].itertuples(index=False, name=None)
    )


def test_what_the_text_says_of_members_is_so(run):
    says("here six of eight do not even fit", "S with early keys is .98 in both", "S = 1.00 with early keys, and the")
    says("both anchors give the whole answer in .87 to .96 of pairs, each alone in at most .10", "Of the ten fitted")
    members = run.table("phases").set_index(["gamma", "seed"])
    fitted = members.loc[members["phase"] != "unfit"]
    assert len(fitted) == 10
    assert fitted.loc[0.8, "S_early"].round(2).to_list() == [0.98, 0.98]
    mixed = fitted.loc[fitted["phase"] == "mixed"].loc[0.5]
    assert sorted(mixed["S_early"].round(2)) == [0.58, 1, 1, 1]
    assert (fitted["I_early"] < 0.005).all()
    anchors = members.loc[members["flow"] == "via anchors"]
    assert anchors.index.to_list() == [(0.5, 6), (0.8, 6), (0.5, 7)]
    moved = run.table("interchange").set_index(["gamma", "seed", "roles"])["source"]
    assert [round(moved[(*member, "a1+a2")], 2) for member in anchors.index] == [0.94, 0.87, 0.96]
    assert max(moved[(*member, role)] for member in anchors.index for role in ("a1", "a2")) <= 0.105
    assert set(run.table("exception_places").query("phase != 'unfit'")["place"]) == {"none"}


def test_the_control_is_quoted(run):
    says("S is gone: .00 in all members at gamma .5 and at most .02 at gamma .8", "do not infer are seeds 1, 2 and 5")
    says(
        "Five of eight members at gamma .5 then answer (4,3) inferentially in .94 or more of rows, one in .41, and two"
    )
    readings = run.readings.query("sweep == 'both_unseen' and probe == 'phase'")
    values = readings.set_index(["quantity", "gamma"])["value"]
    assert values["S", 0.5].max() < 0.005
    assert values["S", 0.8].max() <= 0.02
    inferred = sorted(values["I", 0.5])
    assert (sum(value >= 0.94 for value in inferred), [round(value, 2) for value in inferred[:3]]) == (5, [0, 0, 0.41])


def test_what_the_text_says_of_flows_is_so(run):
    says("the key's position gives the key in all pairs and the last position the pair in .97 or more")
    says("alone brings the pair to the last position in .97 to .99 of pairs", "alone brings the key in 1.00, with no")
    says("both shares are .01 or less", "brings the whole answer (.96 to .98)", "together give the whole answer (.99)")
    says("base .99 or more in nine of ten, .92 in one", "The fifteen other members", "in .28 of pairs (median)")
    members = run.table("phases").set_index(["gamma", "seed"]).sort_index()
    moved = run.table("interchange").set_index(["gamma", "seed", "roles"])
    last, anchors = (members.index[members["flow"] == flow].to_list() for flow in ("via last", "via anchors"))
    assert (last, set(members.loc[last, "phase"])) == ([(0.5, 1), (0.5, 2), (0.5, 5)], {"symmetric"})

    def of(some, roles, answer):
        return [round(moved.loc[(*member, roles), answer], 2) for member in some]

    assert (of(last, "key", "ks_pb"), of(last, "last", "kb_ps")) == ([1, 1, 1], [0.99, 0.99, 0.97])
    assert of(last, "L0's attention at last", "kb_ps") == [0.99, 0.99, 0.97]
    assert of(last, "L1's attention at last", "ks_pb") == [1, 1, 1]
    assert max(of(last, f"L{layer}'s attention at last", "placebo")[at] for layer in (0, 1) for at in range(3)) == 0
    assert max(of(anchors, "L0's attention at last", "kb_ps") + of(anchors, "L1's attention at last", "ks_pb")) <= 0.01
    assert sorted(of(anchors, "L1's attention at last", "source")) == [0.96, 0.96, 0.98]
    fitted = members.index[members["phase"] != "unfit"].to_list()
    assert sorted(of(fitted, "noise", "base"))[:2] == [0.92, 0.99]
    medians = run.table("interchange_by_flow").set_index(["flow", "roles"])
    two = medians.loc[[place for place in medians.index if "+" in place[1]], "source"].round(2)
    assert (two["via last", "key+last"], two["via anchors", "a1+a2"]) == (0.99, 0.94)
    assert two["via last"].drop("key+last").max() <= 0.01
    assert two["via anchors"].drop("a1+a2").max() <= 0.13
    assert tuple(medians.loc[("several", "a1+a2"), ["source", "members"]].round(2)) == (0.28, 15)


def test_what_the_text_says_of_attention_is_so(run):
    says("put .76, .77 and .80 (below .80", "to the key is .98 or more", ".00 to .01, and .66 in one")
    says(
        "(.47 and .47)",
        "(.86 and .13, .73 and .19)",
        "six of eight at gamma .8",
        "The two that keep their flow are unfit",
    )
    says("four at gamma .5 and eight at gamma .8, six of these unfit")
    attention = run.table("attention").query("query == 'last' and gamma == .5")
    attention = attention.set_index(["set", "layer", "seed", "key"])["attention"].round(2)

    def of(set, layer, *keys, seeds=(1, 2, 5)):
        return [[attention[set, layer, seed, key] for key in keys] for seed in seeds]

    sums = run.readings.query("probe == 'attention_between_roles' and quantity == 'last_to_anchors' and layer == 0")
    sums = sums.query("set == 'seen_test' and gamma == .5 and seed in (1, 2, 5)")["value"]
    assert (sorted(sums.round(2)), sums.max() < 0.8) == ([0.76, 0.77, 0.8], True)
    assert min(of("seen_test", 1, "key"))[0] >= 0.98
    assert sorted(of("seen_test", 1, "key", seeds=(0, 3, 4, 6, 7))) == [[0], [0], [0], [0.01], [0.66]]
    assert of("seen_test", 1, "a1", "a2", seeds=(6, 7)) == [[0.47, 0.47], [0.47, 0.47]]
    assert of("unseen", 1, "a1", "a2", seeds=(6, 7)) == [[0.86, 0.13], [0.73, 0.19]]
    members = run.table("phases")
    looking = members.loc[members["attention_last"] | members["attention_anchors"]]
    assert looking["gamma"].value_counts().to_dict() == {0.8: 8, 0.5: 4}
    assert (looking.query("gamma == .8")["phase"] == "unfit").sum() == 6
    kept = looking.loc[looking["attention_last_unseen"] | looking["attention_anchors_unseen"]]
    assert (kept["gamma"].to_list(), kept["phase"].to_list()) == ([0.8, 0.8], ["unfit", "unfit"])


def test_what_the_text_says_of_complexity_is_so(run):
    says(
        "two grow in four seeds, three in two seeds, four in one and five in one",
        "the two that use the most directions",
    )
    says(
        "seven of eight at gamma .5", "lie .21 to .42 above", "for .41 to .99 of items", "in those via anchors as well"
    )
    grown = run.table("growth").query("gamma == .8 and half_step > 0").groupby("seed").size()
    assert sorted(grown) == [2, 2, 2, 2, 3, 3, 4, 5]
    items = run.readings.query("probe == 'lattice'").set_index(["quantity", "gamma", "seed"])["value"].sort_index()
    nearest, order = items["nearest", 0.8], items["participation", 0.8].sort_values()
    assert set(nearest.index[nearest >= 0.5]) == set(order.index[-2:])
    middle = {name: sorted(items[name, 0.5].round(2)) for name in ("contrast", "nearest")}
    assert [(values[0], values[-1]) for values in middle.values()] == [(0.21, 0.42), (0.41, 0.99)]
    assert (items["nearest", 0.5] >= 0.5).sum() == 7
    shares = run.readings.query("probe == 'variance_shares' and layer == 0 and set == 'seen_test' and gamma == .5")
    assert shares.query("quantity == 'unordered_pair' and seed in (6, 7)")["value"].min() >= 0.5


def test_the_control_of_fresh_seeds_is_quoted():
    rows = re.findall(
        r"^\| (\d+) \| ([a-z ]+) \| ([\d.]+) \| ([a-z ]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
    )
    kept = pd.read_csv(ROOT / "results/composite_control.csv").set_index(["sweep", "seed"])
    control, main = kept.loc["both_unseen"], kept.loc["main"]
    assert [int(row[0]) for row in rows] == list(control.index) == list(range(8, 16))
    assert [row[1] for row in rows] == list(control["flow"])
    assert [row[3] for row in rows] == list(main["flow"])
    told = [[float(number) for number in (row[2], row[4], row[5])] for row in rows]
    found = [[control["I"][seed], main["I"][seed], main["S"][seed]] for seed in control.index]
    assert np.abs(np.array(told) - found).max() <= 0.0051
    says("Of the seven others six infer in .89 or more", "gives the pair in .47", "Five of the six are via anchors")
    anchors = control[control["flow"] == "via anchors"]
    assert (len(anchors), round(anchors["I"].min(), 2), anchors["last_gives_kb_ps"].max()) == (6, 0.89, 0.0)
    assert round(control["last_gives_kb_ps"][8], 2) == 0.47
    both = main.loc[anchors.index].query("flow == 'via anchors'")["S"]
    assert (len(both), round(both.min(), 2), both.max()) == (5, 0.88, 1.0)


@pytest.fixture(scope="module")
def sizes():
    spec = importlib.util.spec_from_file_location("composite_sizes", ROOT / "experiments/composite_sizes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sizes_are_quoted(sizes):
    kept = pd.read_csv(sizes.TABLE)
    assert sizes.page_table(kept) in PAGE, "run 'python experiments/composite_sizes.py --table'"
    assert set(kept["setting"]) <= set(sizes.CHANGES)
    says("inferential answers among fitted members is .84, at gamma .5 (`batch_64`)", ".71 (`batch_256_d_model_64`)")
    ended = sizes.last_steps(kept)
    assert set(ended["step"]) == {12_000}
    told = re.search(r"Of (\d+) members (\d+) are symmetric,\s+(\d+) mixed and (\d+) unfit", PAGE)
    counts = ended["phase"].value_counts()
    assert tuple(map(int, told.groups())) == (len(ended), *counts[["symmetric", "mixed", "unfit"]])
    assert "inferential" not in counts
    best = ended.query("phase != 'unfit'").sort_values("inferential").groupby("gamma").tail(1).set_index("gamma")
    assert best.sort_index()[["setting", "inferential"]].round(2).to_numpy().tolist() == [
        ["batch_64", 0.84],
        ["batch_256_d_model_64", 0.71],
    ]


def test_what_the_text_says_of_sizes_is_so(sizes):
    kept = pd.read_csv(sizes.TABLE)
    rows = kept.set_index(["setting", "gamma", "seed", "step"]).sort_index()
    says("(S .78, with early keys .87)", "(I and S .00)", "x - 7 in .72 of rows", "at step 3,600 already (.68)")
    says("x - 16, as of (4,4)", "x - 13, which no trained pair", "Three of four members of `batch_256_small`")
    says("I .73 at step 6,600 and .22 at the end", "4.0 passes over the 759,375", "64 rows 1.0", "at .97 of its peak")
    wide = rows.loc["batch_256"]
    assert wide.loc[(0.5, 0, 12_000), ["symmetric", "symmetric_early"]].round(2).tolist() == [0.78, 0.87]
    assert wide.loc[(0.8, 0, 12_000), ["inferential_early", "symmetric_early"]].tolist() == [0, 0]
    third = wide.loc[[(0.8, 0, step) for step in (3600, 12_000)], ["commonest", "commonest_share"]]
    assert third.to_numpy().tolist() == [[3, 0.676], [3, 0.725]]
    first, end = (rows.xs(step, level="step")["commonest"].dropna() for step in (3600, 12_000))
    told = re.search(r"Of the (\d+) members whose answers were kept (\d+) .*\n\s+and (\d+) of these", PAGE)
    assert tuple(map(int, told.groups())) == (len(end), (first == 3).sum(), ((first == 3) & (end == 4)).sum())
    task = sizes.configured({}).task
    answers = {task.shift_table()[a - 1, b - 1] for a, b in task.trained}
    other = [
        rows.loc[place, "commonest"]
        for place in (("all_of_quick", 0.5, 1, 12_000), ("batch_256_small", 0.8, 0, 12_000))
    ]
    assert other == [-6, -3]
    assert (-7 in answers, -16 in answers, -13 in answers) == (True, True, False)
    assert rows.loc[("batch_256_small", 0.8)].xs(12_000, level="step")["phase"].value_counts()["symmetric"] == 3
    late = rows.loc[("batch_256_small", 0.8, 0), "inferential"]
    assert late.loc[[6600, 12_000]].round(2).tolist() == [0.73, 0.22]
    config, trained = sizes.configured({}), len(task.trained) * task.rows_per_pair
    passes = [round(12_000 * batch / trained, 1) for batch in (256, 64)]
    assert (trained, passes) == (759_375, [4, 1])
    assert round(learning_rate(12_000, config.train) / config.train.lr, 2) == 0.97
