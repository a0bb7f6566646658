"""How many members are trained at once."""

MEMBERS_A_GROUP, ROOM = 8, 1_000_000
"""Members that share each CPU operation: enough to hide its overhead, few enough to stay in cache.

ROOM is in numbers: hidden units, logits and their gradients at the answer's position, of all rows of a batch. Large
batches leave it to fewer members, full ones to one. A member that predicts every next token fills a core alone.
"""
LOGITS_ON_GPU = 4_000_000_000
"""Logits of one pass over all next-token members of a group on a GPU, at most (16 GB as float32)."""
HIDDEN_ON_GPU = 2_400_000_000
"""Hidden units of all layers and positions of a batch, of the last-position members of a group on a GPU, at most.

At the size of paper 2 that is 54 members with 35 GB of activations.
"""
