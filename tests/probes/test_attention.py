"""Attention between roles on patterns made by hand, on drawn ones and on models."""

import numpy as np
import pytest
import torch
from induction import INDUCTION, PREVIOUS, known, rows
from lens_models import lens_model
from scipy.stats import kstest

from rb_interp.errors import ModelError, RolesError
from rb_interp.interventions import routes
from rb_interp.interventions.patterns import pattern_of
from rb_interp.models.build import build_model
from rb_interp.probes import (
    attention,
    attention_by_role,
    attention_to_key,
    from_arrays,
    uniformity,
    weight_rank,
)
from rb_interp.statistics.nulls import dirichlet_rows
from rb_interp.tasks import AnchorTask, Inputs, Roles

ROLES = ("key", "a1", "a2", "last", "noise")
N, EVEN = 60, np.tri(9) / np.arange(1, 10)[:, None]
KEY = np.random.default_rng(0).integers(0, 3, (N, 1))
NOISE = np.arange(3) + 3 * (np.arange(3) >= KEY)
INPUTS = Inputs(
    np.random.default_rng(1).integers(0, 30, (N, 6)),
    roles=Roles(
        {
            "key": KEY,
            "a1": KEY + 1,
            "a2": KEY + 2,
            "last": np.full((N, 1), 5),
            "noise": NOISE,
            "anchor": KEY + np.array([1, 2]),
        }
    ),
)


def plant(pattern, hook):
    even = torch.tril(torch.ones(6, 6)) / torch.arange(1, 7)[:, None]
    planted, rows, key = (
        even.repeat(N, 4, 1, 1).to(pattern),
        torch.arange(N),
        torch.from_numpy(KEY[:, 0]),
    )
    planted[rows, 2, key + 2] = 0.0
    planted[rows, 2, key + 2, key] = 0.75
    planted[rows, 2, key + 2, key + 1] = 0.25
    return planted


def test_planted_patterns_are_read():
    model = lens_model("plain")
    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", plant)]):
        carried, averaged = (
            attention(model, INPUTS, query=ROLES, to=ROLES, layer=1, head=head, untrained=model)
            for head in (2, 0)
        )
        by_role = attention_by_role(model, INPUTS, layer=1, head=0, n_null=0).values
    assert (
        carried.values["a2_to_key"],
        carried.values["a2_to_a1"],
        carried.values["a2_to_a2"],
    ) == (0.75, 0.25, 0)
    assert carried.values["a1_to_key"] == pytest.approx((1 / (KEY + 2)).mean())
    for query in ROLES:  # without the last one, which is noise as well, every position has one role
        assert sum(
            carried.values[f"{query}_to_{key}"] for key in ROLES if key != "last"
        ) == pytest.approx(1)
    assert averaged.values["last_to_key"] == pytest.approx(by_role["key"]) == pytest.approx(1 / 6)
    assert averaged.values["last_to_noise"] == pytest.approx(by_role["noise"] + by_role["self"])
    mean = [
        1 / (at + 1)
        for key, noise in zip(KEY[:, 0], NOISE, strict=True)
        for at in noise
        if key < at
    ]
    assert averaged.values["noise_to_key"] == pytest.approx(
        sum(mean) / NOISE.size
    )  # a mean over all noise positions
    assert carried.untrained == pytest.approx(dict(carried.values), nan_ok=True)


def test_last_is_the_last_position_where_no_role_has_that_name():
    model, bare = lens_model("plain"), Roles({"key": INPUTS.roles.position("key")})
    named, found = (
        attention(
            model, Inputs(INPUTS.tokens, roles=roles), query="last", to=["key", "last"]
        ).values
        for roles in (INPUTS.roles, bare)
    )
    assert found == pytest.approx(dict(named))
    own = Roles({"key": bare.position("key"), "last": bare.position("key")})
    found, wanted = (
        attention(model, Inputs(INPUTS.tokens, roles=own), query=query, to="key").values[
            f"{query}_to_key"
        ]
        for query in ("last", "key")
    )
    assert found == wanted  # a role of that name is the caller's own


def test_the_null_is_what_a_head_reads_that_looks_at_fixed_positions():
    model = lens_model("plain")
    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", plant)]):
        found = attention(model, INPUTS, query=ROLES, to=ROLES, layer=1, head=2)
        even = attention(model, INPUTS, query=ROLES, to=ROLES, layer=1, head=0, n_null=5)
    assert found.nulls["a2_to_key"].p_value(found.values["a2_to_key"]) == pytest.approx(1 / 201)
    for name in ("a1_to_key", "last_to_key"):
        np.testing.assert_allclose(even.nulls[name].draws, even.values[name])


def test_a_role_that_nobody_has_is_undefined_and_says_why():
    model, roles = (
        lens_model("plain"),
        {**INPUTS.roles.positions, "empty": np.zeros((N, 0), dtype=int)},
    )
    inputs = Inputs(INPUTS.tokens, roles=Roles(roles))
    found = attention(model, inputs, n_null=0)
    assert np.isnan(found.values["empty_to_key"])
    assert found.notes["empty_to_key"].startswith("no position has the query's role")
    assert found.values["key_to_empty"] == 0
    known = r"known: .*, all, .*, last, .*, rest$"
    for look in ({"query": "empty"}, {"to": ("key", "empty")}):
        with pytest.raises(RolesError, match="role 'empty' has no position in these rows"):
            attention(model, inputs, **look)
    with pytest.raises(RolesError, match=f"attention needs the role 'xyz'; .* {known}"):
        attention(model, inputs, to=("key", "xyz"))
    later = attention(model, INPUTS, query="key", to="last", n_null=9).to_frame().iloc[0]
    assert (later["null_mean"], later["p_value"]) == (0, 1)  # no key stands last
    everywhere = attention(model, inputs, query="key", to="all", n_null=0)
    assert everywhere.values["key_to_all"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("query", "to", "heads"),
    [("second", "first", {PREVIOUS}), ("query", "second", set(INDUCTION))],
    ids=str,
)
def test_the_excess_finds_the_heads_that_are_known(query, to, heads):
    """By size; the null of other rows tells an induction head, and nothing of a previous-token
    head."""

    def table(model, layer, head):
        return (
            attention(model, rows(), query=query, to=to, layer=layer, head=head)
            .to_frame()
            .set_index("quantity")
        )

    own, over = f"{query}_to_{to}", f"{query}_to_{to}_excess"
    found = {
        (layer, head): table(known().model, layer, head) for layer in range(2) for head in range(2)
    }
    assert {at for at in found if found[at].value[over] > 0.7} == heads
    assert max(found[at].value[over] for at in found.keys() - heads) < 0.2
    for name in (own, over):
        p_values = [found[at].p_value[name] for at in heads]
        assert (
            min(p_values) > 0.1
            if query == "second"
            else p_values == pytest.approx([1 / 201] * len(heads))
        )
    assert max(table(known().untrained, *at).value[over] for at in heads) < 0.1


def of_pattern(patterns):
    """One head's patterns ``[row, query, key]`` as a source."""
    return from_arrays(pattern=np.asarray(patterns, dtype=float)[None, :, None])


def test_an_excess_by_hand():
    """The last of three positions gives .7, .1 and .2; the query at 0 sees nothing else and does
    not count.

    A second row gives all to the first position, and has the role in the middle: its excess is 0 -
    1/2.
    """
    source = of_pattern([[[1, 0, 0], [0.5, 0.5, 0], [0.7, 0.1, 0.2]]])
    roles = {"looking": np.array([[0, 2]]), "first": np.array([[0]]), "rest": np.array([[1, 2]])}
    inputs = Inputs(np.zeros((1, 3), int), roles=Roles(roles))
    found = attention(source, inputs, query="looking", to=("first", "rest"), n_null=10)
    assert found.values["looking_to_first_excess"] == pytest.approx(0.7 - 0.15)
    assert np.isnan(found.values["looking_to_rest_excess"])  # two of three positions: no choice
    two = of_pattern(
        [[[1, 0, 0], [0.5, 0.5, 0], [0.7, 0.1, 0.2]], [[1, 0, 0], [1, 0, 0], [1, 0, 0]]]
    )
    roles = {"last": np.array([[2], [2]]), "thing": np.array([[0], [1]])}
    found = attention(
        two, Inputs(np.zeros((2, 3), int), roles=Roles(roles)), query="last", to="thing"
    )
    assert found.values["last_to_thing_excess"] == pytest.approx((0.55 - 0.5) / 2)
    draws = found.nulls[
        "last_to_thing_excess"
    ].draws  # the rows as they are, or exchanged: .1 - .45 and 1 - 0
    assert {round(draw, 6) for draw in draws} == {0.025, round((-0.35 + 1) / 2, 6)}


def test_overlapping_roles_have_each_their_own_number_in_any_order():
    """The position of the answer is also one of the numbers, and is looked at alone."""
    source = of_pattern(
        np.tile([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0.1, 0.6, 0.2, 0.1]], (3, 1, 1))
    )
    at = {"number": [[0, 1]] * 3, "answer": [[1]] * 3, "query": [[3]] * 3}
    orders = (at, dict(reversed(at.items())))
    found, other = (
        attention(
            source,
            Inputs(np.zeros((3, 4), int), roles=Roles({k: np.array(v) for k, v in one.items()})),
        )
        for one in orders
    )
    assert found.values["query_to_number"] == pytest.approx(0.7)
    assert found.values["query_to_answer"] == pytest.approx(0.6)
    assert found.values["query_to_number_excess"] == pytest.approx(0.7 - 0.3)
    assert found.values["query_to_answer_excess"] == pytest.approx(0.6 - 0.4 / 3)
    assert found.values["number_to_answer"] == 0.5
    assert dict(other.values) == pytest.approx(dict(found.values), nan_ok=True)


def test_attention_that_looks_both_ways_sees_all_positions():
    source = of_pattern([[[0.2, 0.5, 0.3], [0.4, 0.2, 0.4], [1, 0, 0]]])
    roles = Roles({"first": np.array([[0]]), "second": np.array([[1]])})
    inputs = Inputs(np.zeros((1, 3), int), roles=roles)
    found = attention(source, inputs, query="first", to="second", n_null=0).values
    assert found["first_to_second_excess"] == pytest.approx(0.5 - 0.25)
    found = uniformity(source, inputs, n_null=9)
    tv = [(2 / 15 + 1 / 6 + 1 / 30) / 2, 2 / 15, 2 / 3]
    np.testing.assert_allclose(found.arrays["tv_per_row"], tv)
    assert found.values["tv"] == pytest.approx(np.mean(tv))
    assert found.values["max_deviation"] == pytest.approx(2 / 3)
    even = averaged(np.full((2, 3, 3), 1 / 3), n_null=200)
    assert dict(even.values) == pytest.approx(
        {"tv": 0, "max_deviation": 0, "entropy": 1}, abs=1e-12
    )
    assert even.nulls["tv"].mean == pytest.approx(8 / 27, abs=0.03)  # (1 - 1/3)^3


def test_a_head_that_only_prefers_a_place_has_p_1():
    rng = np.random.default_rng(0)
    fixed = np.zeros((12, 12))
    fixed[range(12), np.minimum(3, range(12))] = 1
    roles = Roles({"thing": rng.integers(2, 5, (200, 1)), "end": np.full((200, 1), 11)})
    found = attention(
        of_pattern(np.tile(fixed, (200, 1, 1))),
        Inputs(np.zeros((200, 12), int), roles=roles),
        to="thing",
    )
    assert found.values["end_to_thing_excess"] > 0.2
    assert set(found.to_frame().p_value[found.to_frame().quantity.str.startswith("end")]) == {1.0}


def by_role(last, key, anchors, **options):
    """What the last position gives, ``[row, pos]``."""
    source = of_pattern(np.repeat(last[:, None], last.shape[1], 1))
    inputs = Inputs(np.zeros(last.shape, int), roles=Roles({"key": key, "anchor": anchors}))
    return attention_by_role(source, inputs, layer=0, **options)


def test_attention_by_role_by_hand():
    """Row 1: the block key, anchor, anchor stands first, so the last position is noise. Row 2: it
    stands last."""
    last = np.array([[0.1, 0.2, 0.3, 0.15, 0.25], [0.05, 0.15, 0.5, 0.2, 0.1]])
    values = by_role(last, np.array([[0], [2]]), np.array([[1, 2], [3, 4]]), n_null=0).values
    expected = {
        "key": 0.3,
        "anchor_1": 0.2,
        "anchor_2": 0.2,
        "anchors": 0.4,
        "self": 0.125,
        "noise": 0.175,
    }
    assert values == pytest.approx(expected)


def test_a_head_that_finds_the_key_beats_its_null_and_a_fixed_position_does_not():
    key = np.random.default_rng(0).integers(0, 7, (300, 1))
    finds_key, fixed = np.zeros((300, 9)), np.zeros((300, 9))
    np.put_along_axis(finds_key, key, 1.0, 1)
    fixed[:, 0] = 1.0
    found = by_role(finds_key, key, key + np.arange(1, 3))
    assert found.nulls["key"].p_value(found.values["key"]) == 1 / 201
    found = by_role(fixed, key, key + np.arange(1, 3))
    np.testing.assert_allclose(found.nulls["key"].draws, (key == 0).mean())
    assert found.nulls["key"].p_value(found.values["key"]) == 1


def test_p_values_are_uniform_where_attention_ignores_the_roles():
    n, rng, p_values = 150, np.random.default_rng(1), []
    for seed in range(n):
        anchors = rng.integers(1, 8, (60, 1)) + np.arange(2)
        found = by_role(
            dirichlet_rows(60, 9, rng), anchors[:, :1] - 1, anchors, seed=seed, n_null=99
        )
        p_values.append(found.nulls["anchors"].p_value(found.values["anchors"]))
    assert kstest(p_values, "uniform").statistic < 1.63 / np.sqrt(n) + 1 / 100


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (
            {"key": [[0], [1]], "anchor": [[1], [1]]},
            "one position twice in row 1: key [1], anchor [1]",
        ),
        (
            {"key": [[0], [4]], "anchor": [[1], [1]]},
            "role 'key' has 2 rows, at positions [0, 4]; there are 2 rows with the positions 0 to 3.",
        ),
    ],
)
def test_roles_that_do_not_fit_are_refused(positions, message):
    roles = Roles({role: np.array(at) for role, at in positions.items()}, task="a puzzle")
    with pytest.raises(RolesError) as error:
        attention_by_role(
            of_pattern(np.full((2, 4, 4), 0.25)),
            Inputs(np.zeros((2, 4), int), roles=roles),
            layer=0,
        )
    assert message in str(error.value)


def test_a_last_position_that_is_not_the_last_column_is_refused():
    """Its rows are padded behind."""
    positions = {"key": [[0]] * 2, "anchor": [[1]] * 2, "last": [[3], [2]]}
    roles = Roles({role: np.array(at) for role, at in positions.items()})
    inputs = Inputs(np.zeros((2, 4), int), np.zeros(2, int), roles=roles)
    with pytest.raises(RolesError, match="attention_by_role reads the last column"):
        attention_by_role(of_pattern(np.full((2, 4, 4), 0.25)), inputs, layer=0)
    model = build_model(AnchorTask(), gamma=0.5)
    with pytest.raises(RolesError, match="routes reads the last column"):
        routes(model, inputs, {"key": inputs})


def averaged(patterns, **options):
    return uniformity(
        of_pattern(patterns), Inputs(np.zeros(np.shape(patterns)[:2], int)), **options
    )


def test_padding_in_front_is_no_query_and_nothing_that_one_sees():
    """The first of four positions is padding: its query attends to nothing, and the third one sees
    two positions."""
    even = np.zeros((4, 4))
    even[1:, 1:] = EVEN[:3, :3]
    found = averaged([even, EVEN[:4, :4]], n_null=0)
    assert found.values == pytest.approx(
        {"tv": 0.0, "max_deviation": 0.0, "entropy": 1.0}, abs=1e-12
    )
    np.testing.assert_allclose(found.arrays["tv_per_row"], 0, atol=1e-12)
    of_transformers = np.where(
        even.any(1)[:, None], even, 1 / 4
    )  # there a query of padding looks everywhere
    assert averaged([of_transformers, EVEN[:4, :4]], n_null=0).values == found.values
    behind = np.tile(
        [1 / 3, 1 / 3, 1 / 3, 0], (4, 1)
    )  # of an encoder, whose last position is padding in one row
    both = from_arrays(
        pattern=np.stack([behind, np.full((4, 4), 1 / 4)])[None, :, None].repeat(2, 2)
    )
    assert uniformity(both, Inputs(np.zeros((2, 4), int)), n_null=0).values["tv"] == pytest.approx(
        0
    )
    padded = np.pad(EVEN[:3, :3], ((3, 0), (3, 0)))
    of_text, of_padded = (averaged([one], n_null=400).nulls["tv"] for one in (EVEN[:3, :3], padded))
    assert of_padded.mean == pytest.approx(of_text.mean, abs=1e-12)
    even[3, 1:] = 0, 0, 1  # 1 - 1/3 from the average over the three that it sees
    found = averaged([even], n_null=0)
    assert found.values["tv"] == pytest.approx((0 + 2 / 3) / 2)
    assert found.values["entropy"] == pytest.approx((1 + 0) / 2)
    with pytest.raises(
        ModelError, match="2 rows in which no query that counts attends to anything"
    ):
        averaged([even, even], queries=np.tile(np.arange(4) == 0, (2, 1)))
    inputs = Inputs(np.zeros((1, 4), int), roles=Roles({"key": np.array([[1]])}))
    assert (
        attention(of_pattern([even]), inputs, query="last", to="key", n_null=0).values[
            "last_to_key"
        ]
        == 0
    )


def test_a_null_takes_roles_of_rows_with_the_same_padding():
    """A head that averages what it sees follows no role, so p is 1. A role moved onto padding would
    read less."""
    padding, few = np.repeat([0, 2, 4], (20, 20, 1)), np.array([0, 20, 40])
    even = np.stack([np.pad(EVEN[: 9 - n, : 9 - n], ((n, 0), (n, 0))) for n in padding])
    at = np.random.default_rng(0).integers(padding, 8)[:, None]
    inputs = Inputs(np.zeros((41, 9), int), roles=Roles({"key": at, "anchor": np.full((41, 1), 8)}))
    for probe, asked in (
        (attention, {"query": "anchor"}),
        (attention_by_role, {}),
        (attention_to_key, {}),
    ):
        found = probe(of_pattern(even), inputs, layer=0, head=0, **asked).to_frame()
        found = found[found.null.notna() & found.quantity.str.contains("key")]
        assert set(found.p_value) == {1.0}
        assert found.note.str.startswith(
            "1 of 41 rows have no other row of the same padding, so"
        ).all()
    apart = attention(
        of_pattern(even[few]), inputs.take(few), query="rest", to=["rest", "key", "anchor"]
    )
    assert sum(
        apart.values[f"rest_to_{role}"] for role in ("rest", "key", "anchor")
    ) == pytest.approx(1)
    assert (
        "at the same positions in every row of the same padding, so" in apart.notes["rest_to_key"]
    )


def test_a_diverged_model_is_refused_where_its_attention_is_undefined_and_noted_elsewhere():
    task = AnchorTask()
    data, model = task.dataset(seed=0), build_model(task, gamma=0.5)
    inputs = data.inputs(data.sample("rsn_train", 5))
    for weight, why in (
        (3e38, "attention is not all finite"),
        (torch.nan, "weights are not all finite"),
    ):
        with torch.no_grad():
            model.blocks[0].attn.W_Q.fill_(weight)
        for call in (uniformity, lambda *given: pattern_of(model, inputs.tokens)):
            with pytest.raises(ModelError, match=f"got a model whose {why}"):
                call(model, inputs)
    reading = weight_rank(model, inputs)
    assert reading.notes == {
        "stable_rank_W_QK": "the model's weights are not all finite: its training has diverged."
    }
