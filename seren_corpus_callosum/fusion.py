"""Cut, floor, ranks and Reciprocal Rank Fusion: lists in, list out. Reads ranks, weights and floors, never a magnitude.

Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual rank learning
methods", SIGIR 2009; the weight of each list is this project's addition.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .hits import Hit, RankedHit


@dataclass(frozen=True, slots=True)
class Ranking:
    """One store's contribution: its hits in rank order (the first has rank 1) and its weight."""

    store: str
    weight: float
    hits: tuple[Hit, ...]
    returned: int  # hits after the cut, before the floor
    floored: int  # hits that the floor dropped


def ranked(store: str, hits: Sequence[Hit], *, asked: int, weight: float, floor: float) -> Ranking:
    """Cut to what was asked, keep a repeated id's first place only, then apply the floor.

    A hit without an id is always kept, and so is one whose relevance is unknown. The floor is inclusive.
    """
    cut = hits[:asked]
    seen: set[tuple[tuple[str, ...], str]] = set()
    kept: list[Hit] = []
    floored = 0
    for hit in cut:
        if hit.id:
            known_as = (hit.origin, hit.id)
            if known_as in seen:
                continue
            seen.add(known_as)
        if hit.base_relevance is not None and hit.base_relevance < floor:
            floored += 1
        else:
            kept.append(hit)
    return Ranking(store, weight, tuple(kept), len(cut), floored)


def fuse(rankings: Sequence[Ranking], *, k: int, n_results: int) -> tuple[RankedHit, ...]:
    """Merge by `weight / (k + rank)`, best first; ties in the order of `rankings`, then by rank."""
    merged = [
        RankedHit(ranking.store, rank, ranking.weight / (k + rank), hit)
        for ranking in rankings
        for rank, hit in enumerate(ranking.hits[:n_results], start=1)
    ]
    # sort() is stable and the list is built in configured order and rank: that is the order of ties
    merged.sort(key=lambda hit: -hit.score)
    return tuple(merged[:n_results])
