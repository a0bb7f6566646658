"""What the words of the Emb-MLP study's report mean, in the order in which a reader meets them."""

from rb_interp.figures.numbers import two_digits
from rb_interp.report.glossary import shared
from rb_interp.studies.emb_mlp.config import EARLY, LATE
from rb_interp.tasks.anchor import PLATEAU

GLOSSARY: dict[str, str] = {
    **shared("memory, reasoning", "B, B_test"),
    "sweeps": (
        "adamw: Emb-MLP trained with AdamW. descent: Emb-MLP trained with plain gradient descent. one_layer: the "
        "one-layer model trained with plain gradient descent. All have the same seeds."
    ),
    "key, anchors": "An input is a key followed by its anchors, without noise. The label depends on all of them.",
    "Emb-MLP": (
        "The embeddings of all tokens are summed and go through one hidden layer (Definition 1): no attention, no "
        "positions, so the order of tokens cannot be seen."
    ),
    "one-layer model": (
        "One layer of attention and MLP with residual connections, without LayerNorm, positions and unembedding: the "
        "residual stream is as wide as the vocabulary and is the output (Definition 2, Eq. 9)."
    ),
    "plain gradient descent": (
        "Every step uses all training rows and moves each weight by learning rate times gradient: no momentum, no "
        "rescaling as in AdamW, no clipping, no weight decay. The theory is about this."
    ),
    "f": (
        "Share of the loss that is left: the loss on rsn_train over ln d_vocab, the loss of a uniform guess, at most 1."
    ),
    "stages": (
        f"init: step 0, the untrained model. leaving: the first evaluation with f < {two_digits(PLATEAU)}, where "
        "learning "
        f"begins (the last one where that never happens). early, late: {100 * EARLY:g} % and {100 * LATE:g} % of the "
        "steps. half: the first evaluation with f at most one half. final: the last step."
    ),
    "u, P^s, r_s": (
        "u = 1/d_vocab. P^s: how often each label stands beside token s. r_s: how often s occurs per training row; a "
        "token that stands twice in a row counts twice."
    ),
    "drift": (
        "How far a token's embedding has moved since step 0. Predicted: learning rate times the sum over steps of r_s "
        "(P^s − u) W, where W is the product of the transposed weights behind the embedding (Eqs. 5, 10 and 11)."
    ),
    "each step, step 0, population": (
        "Three predictions of the drift. Each step: with the weights W as they are at each step, and P^s counted in "
        "the training rows. Step 0: W stays as it was drawn, so nothing of the training is used. Population: P^s as "
        "Eqs. 7 and 8 have it for infinitely many rows."
    ),
    "positions": (
        "For the one-layer model: as each step, and it also knows how often each token stands at the last position, "
        "where the residual connection carries it."
    ),
    "R², cosine": (
        "Of predicted and measured drift, over all tokens of a group and all coordinates, centred over the group. R² "
        "is 1 where they are equal, 0 where every token is given the group's mean drift, and has no lower bound. The "
        "cosine forgives a wrong length."
    ),
    "permuted": (
        "Mean R² of predictions exchanged among memory anchors and among reasoning anchors: what is known of a kind "
        "as a whole. Only what exceeds it is about single tokens."
    ),
}
