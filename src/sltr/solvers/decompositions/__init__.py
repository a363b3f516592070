"""Low-rank structures for a coefficient tensor: CP and Tucker.

A structure turns a GLM in a tensor into a cycle of GLMs in blocks: the tensor is
linear in each block when the others are held. All structures offer the same methods:

- ``designs(X, blocks)`` yields ``(index, design)`` for one sweep;
- ``balance(blocks)`` is the same tensor at no higher a ridge penalty;
- ``spectral_start``, ``random_start``, ``enlarge`` and ``tensor`` make blocks and undo
  them; ``smaller(k)`` is the same structure with ranks of at most k.

The samples are read twice in a sweep: once contracted with the factors of the last
modes, which serves all the first modes, and once the other way round.
"""

from sltr.solvers.decompositions.blocks import Blocks
from sltr.solvers.decompositions.cp import CP
from sltr.solvers.decompositions.tucker import Tucker

__all__ = ["CP", "Blocks", "Tucker"]
