"""The figures of the language study, in the order in which the report shows them."""

from rb_interp.figures.spec import FigureSpec
from rb_interp.studies.language.figures import losses, mechanisms, similarity, skills

FIGURES = (
    FigureSpec(
        "language_loss",
        "Loss on PrOntoQA and on stories (after Fig. 1)",
        losses.draw_loss,
        losses.caption_loss,
        ("G1", "G2"),
    ),
    FigureSpec(
        "delta_loss",
        "How much more is lost on stories, by initialisation (after Fig. 7A)",
        losses.draw_delta,
        losses.caption_delta,
        ("G1", "G1n", "G2"),
    ),
    FigureSpec(
        "token_cosines",
        "Cosines of token embeddings, early in training (after Fig. 7B)",
        similarity.draw_cosines,
        similarity.caption_cosines,
        ("G3",),
    ),
    FigureSpec(
        "token_similarity",
        "Mean cosines by corpus, initialisation and stage",
        similarity.draw,
        similarity.caption,
        ("G3",),
    ),
    FigureSpec("embedding_rank", "Rank of embeddings and weights", mechanisms.draw_rank, mechanisms.caption_rank),
    FigureSpec(
        "text_attention",
        "Attention of the first two layers on text",
        mechanisms.draw_attention,
        mechanisms.caption_attention,
    ),
    FigureSpec(
        "next_token",
        "Embeddings beside what follows their tokens (Prop. 1)",
        mechanisms.draw_next_token,
        mechanisms.caption_next_token,
    ),
    FigureSpec("skills", "Answers and chains of thought by hops", skills.draw, skills.caption),
)
