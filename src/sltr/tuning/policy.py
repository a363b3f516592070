"""How hard a tuning tries: all its numbers in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sltr.ridge import DEFAULT_LIMITS, RidgeLimits


@dataclass(frozen=True)
class Policy:
    """How hard a tuning tries. `DEFAULT` is what estimators use; tests pass others."""

    # When the pilot's factorisation is too large.
    ridge_limits: RidgeLimits = DEFAULT_LIMITS
    # Penalties of the pilot: multiples of the one of least leave-one-out error, where
    # the paper's estimates are all there is: they may want less, or more. Beside
    # refits that one is as good. And multiples of it to try first where whole groups
    # of samples are left out.
    epsilon_factors: tuple[float, ...] = (0.1, 1.0, 10.0)
    group_factors: tuple[float, ...] = (1.0, 10.0, 100.0, 1e3, 1e4)
    # Of a likelihood: steps of half a decade from the least-squares penalty at most,
    # and the gradient, relative to the null model's, at which pilots are compared.
    most_penalties: int = 12
    likely_tol: float = 1e-3
    # How often refits are made again about the answer that they led to.
    reweightings: int = 3
    # Refits start from the estimate with these relative radii: they remove noise
    # from the pilot but keep its terms.
    start_radii: tuple[float, float] = (0.3, 0.3)
    # Candidates are compared at a duality gap this many times the final one, up to
    # a largest gap; refits, and large tensors that responses share, in this precision.
    loose_gap: float = 10.0
    largest_gap: float = 0.1
    precision: str = "float32"
    # Lasso thresholds, as fractions of the smallest that leaves no entry. Lower ones
    # take longer: each batch follows only if the lowest of the last one is the best.
    thresholds: tuple[tuple[float, ...], ...] = (
        (0.6, 0.4, 0.27, 0.18, 0.1),
        (0.05, 0.02),
        (0.003,),
    )
    # Ridges for the refit on the Lasso's support; None leaves the Lasso as it is.
    support_ridges: tuple[float | None, ...] = (None, 0.03)
    # Coefficients and fitted values that a batch of Lasso fits may hold.
    batch_entries: int = 4_000_000
    # Reweighting: the steps tried, and those whose coefficients start low-rank
    # refits; the residual of a step, relative to its right-hand side.
    steps: tuple[int, ...] = (2, 3, 4, 6, 10)
    seed_steps: tuple[int, ...] = (4, 10)
    reweight_tol: float = 4e-2
    # Low-rank refits: ridges relative to the features' mean energy, sweeps under
    # each, and how many of the first ones all starts get.
    ridges: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
    sweeps: int = 4
    starting_sweeps: int = 3
    # Ranks rise up to these, until so many in a row gain nothing: a Tucker rank of
    # one mode may need that of another.
    largest_tucker_rank: int = 4
    largest_cp_rank: int = 6
    tucker_patience: int = 2
    cp_patience: int = 1
    # Lower ridges are left out where the first one is worse than it was at an earlier
    # rank by more than this many standard errors.
    worse_by: float = 2.0
    # Of more responses than this, which may share a tensor, only a shared one is
    # refitted: curves have hundreds of responses, and refits of each take as long.
    most_refitted: int = 50
    # Folds that choose the refit of a single fit.
    inner_folds: int = 5
    # Under `rule="average"` smaller weights would cost a refit and change little.
    smallest_weight: float = 0.1
    # Few samples tell kinds of candidates apart badly. With n samples the pilot counts
    # 1 + prior_samples / n times, and low-rank or sparse refits as many times less.
    prior_samples: float = 40.0
    # The last step: radii, 0 first, of the spectral balls about the members' mean,
    # relative to its largest singular values, and of the box about what is found there,
    # relative to its largest entry. Ranks are lowered as long as the held-out error
    # rises by less than this share, so many standard errors of the difference added;
    # zeros have to lower it by so many (`benchmarks/answers.py support`). The answer is
    # empty unless its pilot's held-out predictions agree with the responses by so many
    # standard errors (that many because it is chosen among many, by folds that share
    # their samples), or the ridge pilot does at this level, by so many permutations. On
    # pure noise nine of ten are empty (`benchmarks/answers.py noise`).
    last_radii: tuple[float, ...] = (
        0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5,
    )  # fmt: skip
    low_share: float = 0.01
    low_errors: float = 2.0
    zeros_pay: float = 0.5
    found_errors: float = 3.3
    found_level: float = 0.025
    found_permutations: int = 199
    # Coefficients of the folds that may be kept for it; more are fitted again.
    kept_entries: int = 40_000_000

    # Samples that are left in place: steps of reweighting, blocks of a structure that
    # are solved for under a ridge (so many passes), and Tucker ranks tried. What is not
    # a must is left out once it would make more passes than this.
    stored_steps: int = 4
    stored_blocks: int = 12
    stored_tucker_ranks: int = 8
    most_passes: int = 60
    # Parts of the memory limit for samples that are left in place, as divisors: for
    # pilots, coefficients that wait for a pass, a chunk of solutions, solver states.
    pilot_share: int = 4
    waiting_share: int = 4
    chunk_share: int = 8
    state_share: int = 2
    # For samples that are held in the precision of refits, for what sweeps see of
    # them, and for columns of the Lasso.
    held_share: int = 2
    sweep_share: int = 4
    column_share: int = 8

    def __post_init__(self):
        if not set(self.seed_steps) <= set(self.steps):
            msg = (
                f"seed_steps={self.seed_steps} was given; expected among {self.steps}."
            )
            raise ValueError(msg)
        if not self.starting_sweeps < self.sweeps:
            msg = (
                f"starting_sweeps={self.starting_sweeps} was given; expected fewer "
                f"than the {self.sweeps} sweeps."
            )
            raise ValueError(msg)

    def for_stored(self, n_modes: int, rough: bool) -> Policy:
        """Return the policy for samples that are read anew for every product.

        A sweep takes a pass for each mode: of many modes, fewer sweeps are nearly as
        good. A step of reweighting takes about five, unless `rough` samples serve it:
        the first steps are nearly as good as later ones.
        """
        steps = tuple(step for step in self.steps if step <= self.stored_steps)
        steps = self.steps if rough else steps or self.steps[:1]
        sweeps = max(2, min(self.sweeps, self.stored_blocks // n_modes))
        return replace(
            self,
            steps=steps,
            seed_steps=self.seed_steps if rough else steps[-1:],
            sweeps=sweeps,
            starting_sweeps=min(self.starting_sweeps, sweeps - 1),
        )

    def largest_rank(self, kind: str, shape: tuple[int, ...]) -> int:
        """Return the largest rank worth trying for tensors of a shape."""
        if len(shape) == 1:
            return 1
        most = self.largest_cp_rank if kind == "cp" else self.largest_tucker_rank
        return min(most, sorted(shape)[-2])

    def patience(self, kind: str, shape: tuple[int, ...]) -> int:
        """Return how many ranks in a row may gain nothing; of matrices only one."""
        if len(shape) < 3:
            return 1
        return self.cp_patience if kind == "cp" else self.tucker_patience


DEFAULT = Policy()
