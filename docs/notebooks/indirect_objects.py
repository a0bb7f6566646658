# %% [markdown]
# # From six sentences to a circuit: indirect objects
#
# A model of three layers, trained here in half a minute, learns to say who gets the book: "Mary" in
# the first sentence below. Which heads do it, what do they pass on, and how would we know that it
# is not something else? The steps are those of TransformerLens's own demos (Wang et al. 2022,
# arXiv:2211.00593), each with a null or a control beside its number.
#
# Rounding differs between processors, and with it which heads learn what. So the cells choose heads
# by their numbers, and the text says what to look for.

# %%
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import rb_interp as rb
from rb_interp import interventions as iv

SENTENCES = (
    "When Mary and John went home , John gave a book to",
    "After Tom and Anna met , Anna sent a new ball to",
    "Friends Kate and Paul sat down , Paul showed a map to",
    "Today Lucy met Jack , so Jack then lent a coat to",
    "In the park Emma saw Mark , Emma threw a key to",
    "As Rose was with Fred , Rose quickly passed a cup to",
)
ANSWERS = (" Mary", " Tom", " Kate", " Lucy", " Mark", " Fred")

# %% [markdown]
# ## Rows of the same kind
#
# Sentences of the same six patterns, with other names and things, are what the model learns from. It
# never sees the pairs of names that we keep back, in either order. `GIVER` is whoever is named
# twice, first or second of the two.

# %%
PATTERNS = (
    "When A and B went home , GIVER gave a THING to",
    "After A and B met , GIVER sent a new THING to",
    "Friends A and B sat down , GIVER showed a THING to",
    "Today A met B , so GIVER then lent a THING to",
    "In the park A saw B , GIVER threw a THING to",
    "As A was with B , GIVER quickly passed a THING to",
)
NAMES = ["Mary", "John", "Tom", "Anna", "Kate", "Paul", "Lucy", "Jack"]
NAMES += ["Emma", "Mark", "Rose", "Fred", "Sara", "Adam", "Jane", "Luke"]
NAMES += ["Lily", "Ben", "Nora", "Max", "Ruth", "Sam", "Oscar", "Ian"]
THINGS = ["book", "ball", "map", "coat", "key", "cup", "letter", "flower"]
held_out = {frozenset(NAMES[i : i + 2]) for i in range(0, len(NAMES), 2)}  # Mary and John, ...


def sentences(n, rng, seen):
    """Sentences and answers, with pairs of names that the model sees in training or not."""
    rows = []
    while len(rows) < n:
        a, b = rng.choice(NAMES, 2, replace=False)
        if ({a, b} in held_out) != seen:
            giver, other = (a, b) if rng.random() < 0.5 else (b, a)
            names = {"A": a, "B": b, "GIVER": giver, "THING": rng.choice(THINGS)}
            pattern = PATTERNS[rng.integers(len(PATTERNS))].split()
            rows.append((" ".join(names.get(word, word) for word in pattern), f" {other}"))
    return [list(column) for column in zip(*rows, strict=True)]


# %% [markdown]
# ## A model with a tokenizer of words
#
# With a hub at hand, GPT-2 small is two lines, and all cells behind the training take it as it is:
# each name here is one of its tokens too. It has hundreds of paths, so take fewer sentences there.

# %%
words = sorted({word for text in PATTERNS for word in text.split()} | {*NAMES, *THINGS})
vocabulary = {word: number for number, word in enumerate(["<s>", *words])}
backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
backend.pre_tokenizer = pre_tokenizers.Split(Regex(" "), "removed")
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=backend,
    bos_token="<s>",
    eos_token="<s>",
    pad_token="<s>",
    padding_side="right",
)
SIZES = {
    "n_layers": 3,
    "n_heads": 4,
    "d_model": 64,
    "d_head": 16,
    "d_mlp": 128,
    "n_ctx": 16,
    "d_vocab": len(vocabulary),
    "act_fn": "gelu_new",
    "normalization_type": "LN",
    "device": "cpu",
}


def small_model():
    try:  # up to TransformerLens 3.9
        from transformer_lens import HookedTransformer, HookedTransformerConfig

        model = HookedTransformer(HookedTransformerConfig(**SIZES))
    except ImportError:  # from 4.0 on
        from transformer_lens.config import TransformerBridgeConfig
        from transformer_lens.model_bridge import TransformerBridge

        model = TransformerBridge.boot_native(TransformerBridgeConfig(**SIZES), device="cpu")
    model.tokenizer, model.cfg.tokenizer_prepends_bos = tokenizer, False
    return model


model, untrained = (rb.scale_init(small_model(), gamma=0.5, seed=0) for _ in range(2))
# In place of this line and of the training below:
# model = HookedTransformer.from_pretrained("gpt2")
# untrained = rb.scale_init(HookedTransformer.from_pretrained("gpt2"), gamma=0.5, seed=0)

# %%
steps, batches = 400, np.random.default_rng(0)
pool = rb.Inputs.from_text(model, *sentences(8000, np.random.default_rng(1), seen=True))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.01)
with rb.threads(1):
    for step in range(steps):
        rows = pool.take(batches.integers(len(pool), size=64))
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 50, 1.05 - step / steps)
        logits = model(torch.from_numpy(rows.tokens))[:, -1]
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(rows.labels))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
f"loss at the end: {loss.item():.3f}"

# %% [markdown]
# ## Rows with roles
#
# A role says where something stands in each sentence: a string, one for each row, or a function of
# the sentence.


# %%
def first_mention(text):
    return re.search(r"([A-Z]\w+)(?= .*\b\1\b)", text).span(1)


def second_mention(text):
    return [*re.finditer(r"[A-Z]\w+", text)][-1].span()


def inputs_of(texts, answers):
    names = [answer.strip() for answer in answers]
    roles = {"receiver": names, "giver": first_mention, "again": second_mention, "thing": -2}
    return rb.Inputs.from_text(model, list(texts), list(answers), roles)


six = inputs_of(SENTENCES, ANSWERS)
six.show(0)

# %%
with torch.no_grad():
    answers = model(torch.from_numpy(six.tokens))[:, -1].argmax(-1)
pd.DataFrame(
    {"sentence": SENTENCES, "answer": ANSWERS, "model": [*map(six.text_of, answers.tolist())]}
)

# %% [markdown]
# The six pairs of names were never seen together. From here on we read 200 more sentences with such
# pairs. Beside them stand the same sentences with the other person as the giver, so that the answer
# is the other name, and the same sentences with another thing, which must not matter: the control.

# %%
texts, answers = sentences(200, np.random.default_rng(2), seen=False)


def other_giver(text, answer):
    """The same sentence with the other person as the giver, and its answer."""
    begin, end = second_mention(text)
    return text[:begin] + answer.strip() + text[end:], " " + text[begin:end]


def other_thing(text):
    words = text.split()
    words[-2] = THINGS[(THINGS.index(words[-2]) + 3) % len(THINGS)]
    return " ".join(words)


clean = inputs_of(texts, answers)
corrupted = inputs_of(*zip(*map(other_giver, texts, answers), strict=True))
same = inputs_of(map(other_thing, texts), answers)

# %% [markdown]
# ## Where can the answer be read?
#
# The logit lens reads the stream at the last word as if it were the last one. Its null gives each
# row the answer of another row.

# %%
lens = rb.probes.logit_lens(model, clean, untrained=untrained)
table = lens.to_frame()
table[table.quantity.str.endswith("probability")][
    ["quantity", "value", "untrained", "null_mean", "p_value"]
].round(3)

# %% [markdown]
# ## Who writes it there?
#
# `direct_effect` says how much each part writes into the answer's logit, less the mean logit of all
# answers. The parts add up to the whole. The control reads what the part writes in the sentence
# with the other giver: a part that writes the answer goes down there.

# %%
parts = iv.direct_effect(model, clean, control=corrupted)
_ = parts.plot()

# %%
by_head = iv.direct_effect(model, clean, by="head", control=corrupted)
effects = by_head.to_frame().set_index("site").filter(like="z.", axis=0)
effects.sort_values("effect", ascending=False).head(4).round(3)

# %% [markdown]
# Where does the head look that writes most? At the receiver, as the name movers of GPT-2 do, or at
# another word, to which somebody else has brought the answer? The null: the roles of another row.

# %%
later = effects.filter(regex="z.[1-9]", axis=0)
mover = later.effect.idxmax()
layer, head = map(int, mover.split(".")[1:])
names = ["receiver", "giver", "again"]
look = rb.probes.attention(
    model, clean, query="last", to=names, layer=layer, head=head, untrained=untrained
)
_ = look.plot()

# %%
pattern = rb.probes.captured(model, six.tokens)["pattern", layer][:, head]
_ = rb.plots.attention(pattern, six, row=0)

# %% [markdown]
# ## Do weights say the same?
#
# A name mover copies: the token that it looks at becomes more likely. `head_circuits` asks the
# weights alone. Its null has the same singular values in random directions. A head that passes on
# what other heads wrote at a word, and not the word itself, need not read high.

# %%
weights = rb.scan(rb.probes.head_circuits, model, untrained=untrained, n_null=50)
_ = rb.plots.heads(weights, "copying")

# %% [markdown]
# ## What travels where?
#
# The sentence with the other giver differs in a single word. It runs with one cell taken from the
# sentence as it was: 1 means that this cell brings the whole answer back. `roles="positions"` takes
# every position; sentences of one pattern share their words, so these stand on the axis.

# %%
when = [text.startswith("When") for text in texts]
one, other = clean.take(when), corrupted.take(when)
stream = iv.patching_matrix(model, one, other, components="resid_pre", roles="positions")
_ = stream.plot()

# %% [markdown]
# At first all of it stands at the second mention of the giver, since nothing else differs, and at
# the end at the last word. `head="all"` says which heads carry it, here over all six patterns; the
# control takes each cell from a sentence with another thing.

# %%
control = corrupted.with_tokens_of(same, "thing")
heads = iv.patching_matrix(model, clean, corrupted, head="all", control=control)
_ = heads.plot()

# %% [markdown]
# ## Does the answer need them?
#
# Each head is replaced by its value in another sentence. A head may carry much and yet be needed
# little, if another one does the same.

# %%
losses = iv.ablations(model, clean, head="all", control=same, methods=["resample"])
losses.sort_values("loss_increase", ascending=False).head(5)[
    ["component", "accuracy", "accuracy_drop", "loss_increase", "control_loss_increase", "n"]
].round(3)

# %% [markdown]
# ## By which paths?
#
# Senders are the heads below the one that writes most; receivers are the values of all heads of its
# layer, and the logits themselves. MLPs between the two are recomputed, as in the paper on indirect
# objects.

# %%
n_heads = model.cfg.n_heads
senders = [f"z.{below}.{number}" for below in range(layer) for number in range(n_heads)]
groups = {part: [f"{part}.{layer}.{number}" for number in range(n_heads)] for part in "qkv"}
receivers = [*groups["v"], "logits"]
paths = iv.path_matrix(
    model, corrupted, clean, senders, receivers, mlps="recomputed", control=control
)
_ = paths.plot()

# %% [markdown]
# A single path carries a small part. `together=True` sends all senders at once into several
# receivers at once, as groups of heads are treated in the paper.

# %%
groups |= {"q, k and v": [*groups["q"], *groups["k"], *groups["v"]], "logits": ["logits"]}
for name, receivers in groups.items():
    path = iv.path_matrix(
        model, corrupted, clean, senders, receivers, together=True, mlps="recomputed"
    )
    print(f"heads below L{layer} into its {name:10}: {path.values.item():5.2f}")

# %% [markdown]
# ## What is passed on?
#
# A head that moves the answer may pass on a *name*, or say *which of the two* it is ("the first").
# The hypotheses differ if a site is taken from a sentence with other names and the other order: the
# answer then becomes the source's receiver, or the base's other name. Or the source's giver, if
# that is what the site brings.

# %%
AFTER = dict(zip(NAMES, NAMES[2:] + NAMES[:2], strict=True))


def strangers(text):
    return " ".join(AFTER.get(word, word) for word in text.split())


pairs = [
    other_giver(strangers(text), " " + AFTER[answer.strip()])
    for text, answer in zip(texts, answers, strict=True)
]
source = inputs_of(*zip(*pairs, strict=True))
giver = np.take_along_axis(source.tokens, source.roles.position("again"), 1)[:, 0]
predicted = {
    "name of the receiver": source.labels,
    "which of the two": corrupted.labels,
    "name of the giver": giver,
}
sites = ["resid_pre.0@again", "resid_pre.1@again", "resid_pre.2@again", "resid_pre.2@last"]
carried = {
    site: iv.interchange(model, clean, source, site, predicted, control=same) for site in sites
}
pd.DataFrame(
    {site: effect.hypotheses.set_index("answer").share.round(2) for site, effect in carried.items()}
)

# %% [markdown]
# Before L0 the site is a strange name and nothing else. The model then takes one of the two names,
# and half of these answers happen to be "which of the two": a share near one half there is a guess.
# The whole result has the intervals, the row's own activation (`self`: all untouched) and random
# sites and subspaces. Another thing comes after the second mention, so that it changes nothing
# here, and the note says so.

# %%
carried["resid_pre.1@again"]

# %% [markdown]
# ## The circuit alone
#
# Keep the heads with the largest shares and give all others their value in another sentence. The
# heads of a circuit answer rightly without the others, and as many heads at random do not. A model
# that takes one of the two names is right in half of the rows.

# %%
shares = heads.to_frame().sort_values("recovered", ascending=False)
ranked = [f"z.{row.layer}.{row.head}" for row in shares.itertuples()]


def accuracy_with(kept):
    others = [site for site in ranked if site not in kept]
    return iv.ablation(model, clean, others, method="resample").to_frame().after.item()


draws = np.random.default_rng(4)
counts = (4, 6, 8, 10)
best = [accuracy_with(ranked[:n]) for n in counts]
random = [[accuracy_with(draws.permutation(ranked)[:n]) for _ in range(4)] for n in counts]

# %%
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.plot(counts, best, "o-", label="with the largest shares")
ax.plot(counts, np.mean(random, 1), "o--", color="0.45", label="at random, mean of four draws")
ax.plot(np.repeat(counts, 4), np.ravel(random), ".", color="0.75", label="at random, each draw")
ax.axhline(0.5, color="0.8", linewidth=1)
ax.set(xlabel=f"heads kept, of {len(ranked)}", ylabel="accuracy", ylim=(0, 1.05), xticks=counts)
_ = ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %% [markdown]
# ## What we know
#
# The answer is worked out where the giver is named again, if `resid_pre` brings all of it there up
# to a late layer, if the head that writes most looks there, and if its values, and not its queries
# or keys, are what lower heads reach. In GPT-2 it is otherwise: its heads say *whom not to look at*,
# and name movers look at the receiver. Same task, same answers, another circuit: read the paths and
# the interchange, not the accuracy. What each number means, and how it misleads, stands in
# [probes](../probes.md) and [interventions](../interventions.md).
