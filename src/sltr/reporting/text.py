"""The methods paragraph: what was fitted and chosen, in words, and what to cite.

Apart from `report` because it is prose: it computes nothing and knows no page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sltr.reporting.facts import answer_text, refinement_text

# Class name prefix: what the method is called, and the keys of its references.
_METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SLTR": (
        "sparse and low-rank tensor regression (SLTR)",
        ("zhangsltr", "combettes2011proximal"),
    ),
    "Remurs": ("regularised multilinear regression (Remurs)", ("song2017remurs",)),
    "Sturm": ("sparse tubal-regularised regression (Sturm)", ("li2019sturm",)),
    "SURF": ("boosted sparse and low-rank regression (SURF)", ("he2018surf",)),
    "CP": ("CP tensor regression (GLTRM)", ("zhou2013tensor",)),
    "Tucker": ("Tucker tensor regression", ("li2018tucker",)),
    "HRTRR": ("tensor ridge regression on CP factors (hrTRR)", ("guo2012tensor",)),
    "ORTRR": ("rank-selecting tensor ridge regression (orTRR)", ("guo2012tensor",)),
    "TPGD": ("tensor projected gradient descent (TPGD)", ("ahmed2020tensor",)),
    "ElemRidge": ("the elementary ridge estimator", ("yang2014elementary",)),
    "TensorLasso": ("the Lasso on the flattened tensor", ("tibshirani1996lasso",)),
    "TensorElasticNet": ("the elastic net on the flattened tensor", ("zou2005net",)),
    "ReducedRank": (
        "reduced-rank ridge regression",
        ("izenman1975reduced", "mukherjee2011reduced"),
    ),
    "TensorMultiTaskLasso": (
        "the multi-task Lasso on the flattened tensor",
        ("obozinski2010joint",),
    ),
    "TensorOnTensor": ("tensor-on-tensor regression", ("lock2018tensor",)),
    "TensorRidge": ("ridge regression on the flattened tensor", ("hoerl1970ridge",)),
}


def name_and_keys(class_name: str) -> tuple[str, tuple[str, ...]]:
    """Return what a method is called in words, and the keys of its references."""
    # The longest prefix wins: TensorLasso is not Tensor….
    for prefix in sorted(_METHODS, key=len, reverse=True):
        if class_name.startswith(prefix):
            return _METHODS[prefix]
    return class_name, ()


def method_name(class_name: str) -> str:
    """Return what a method is called in words."""
    return name_and_keys(class_name)[0]


def bibtex(class_name: str) -> str:
    """Return the references of a method as BibTeX."""
    keys = [*name_and_keys(class_name)[1], "pedregosa2011scikit"]
    return "\n\n".join(references()[key] for key in keys)


def references() -> dict[str, str]:
    """Return all references by key."""
    file = Path(__file__).with_name("references.bib")
    entries = file.read_text(encoding="utf-8").strip().split("\n\n")
    return {entry.partition("{")[2].partition(",")[0]: entry for entry in entries}


def method_text(facts: dict[str, Any]) -> str:
    """Return the paragraph for a paper's methods section, from `model_facts`."""
    name, keys = name_and_keys(facts["class_name"])
    cite = f" \\cite{{{','.join(keys)}}}" if keys else ""
    shape = " × ".join(map(str, facts["shape"]))
    parts = [
        f"We fitted {name}{cite} to {facts['n_samples']} samples of shape {shape}.",
        *_settings_texts(facts),
        refinement_text(facts["refinements"]),
        facts["last_step"],
        _structure_text(facts),
        facts["certificate"],
        _passes_text(facts["n_passes"]),
        facts["headline"].sentence,
        f"Computations used sltr {facts['version']} and scikit-learn "
        "\\cite{pedregosa2011scikit}.",
    ]
    return " ".join(filter(None, parts))


def _passes_text(n_passes: float) -> str:
    """Return how often samples that do not fit into memory were read."""
    if not n_passes:
        return ""
    return f"The samples stayed where they are stored and were read {n_passes:g} times."


def _settings_texts(facts: dict[str, Any]) -> list[str]:
    """Return how the hyper-parameters came about, in sentences."""
    sentences = []
    if facts["chosen"]:
        sentences.append(
            f"Hyper-parameters ({_equations(facts['chosen'])}) were chosen by "
            f"{facts['folds']} over {facts['n_candidates']} candidates."
        )
    if facts["answer"]:
        return [*sentences, answer_text(facts["answer"], facts["best"])]
    if facts["settings"]:
        others = "Other hyper-parameters" if facts["chosen"] else "Hyper-parameters"
        sentences.append(f"{others} were set to {_equations(facts['settings'])}.")
    if facts["by_loo"]:
        sentences.append(
            f"The least leave-one-out error chose {_equations(facts['by_loo'])}."
        )
    if facts["by_folds"]:
        sentences.append(
            f"Cross-validation within these samples chose "
            f"{_equations(facts['by_folds'])} for the refit."
        )
    return sentences


def _structure_text(facts: dict[str, Any]) -> str:
    """Return how sparse the coefficients are and which ranks they have."""
    share = 100 * facts["n_nonzero"] / facts["n_entries"]
    sparse = (
        f"{facts['n_nonzero']} of {facts['n_entries']} entries different from zero "
        f"({share:.1f} %)"
    )
    ranks = [f"({_listed(ranks)})" for ranks in facts["ranks"]]
    many = len(facts["shape"]) > 1
    if len(ranks) == 1:
        rank = f" and multilinear rank {ranks[0]}" if many else ""
        return f"The coefficient has {sparse}{rank}."
    named = zip(ranks, facts["targets"], strict=True)
    kind = facts["target_kind"]
    of_each = _listed([f"{rank} for {kind} {target}" for rank, target in named])
    rank = f", and multilinear ranks {of_each}" if many and len(ranks) <= 30 else ""
    kinds = {"class": "classes", "response": "responses"}[kind]
    return f"Each of {len(ranks)} {kinds} has a coefficient; they have {sparse}{rank}."


def _equations(settings: Mapping[str, str]) -> str:
    return _listed([f"{name} = {value}" for name, value in settings.items()])


def _listed(items: Sequence[Any]) -> str:
    return ", ".join(map(str, items))
