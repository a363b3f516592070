"""From a folder of images and a table to a model and its predictions."""

import csv
import json

import numpy as np
import pytest

pytest.importorskip("typer")

from sltr import load
from sltr.cli.entry import main

nibabel = pytest.importorskip("nibabel")

SHAPE = (6, 5, 4)
AFFINE = np.array([[-4.0, 0, 0, 40], [0, 4, 0, -60], [0, 0, 4, -20], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Return a BIDS folder of 30 participants whose age is in their images."""
    root = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(36, *SHAPE)).astype(np.float32)
    age = 50 + 10 * X[:, 2:4, 1:3, 1:3].sum(axis=(1, 2, 3)) + rng.normal(size=36)
    inside = np.zeros(SHAPE, np.uint8)
    inside[1:5, 1:4, 1:4] = 1
    nibabel.save(nibabel.Nifti1Image(inside, AFFINE), root / "mask.nii.gz")
    for folder, rows in (("bids", range(30)), ("new", range(30, 36))):
        lines = ["participant_id\tage"]
        for k in rows:
            file = root / folder / f"sub-{k:02d}" / f"sub-{k:02d}_T1w.nii.gz"
            file.parent.mkdir(parents=True)
            nibabel.save(nibabel.Nifti1Image(X[k], AFFINE), file)
            lines.append(f"sub-{k:02d}\t{age[k]}")
        table = root / folder / "participants.tsv"
        table.write_text("\n".join(lines) + "\n")
        shuffled = [lines[0], *rng.permutation(lines[1:])]
        (root / f"{folder}.tsv").write_text("\n".join(shuffled) + "\n")
    return root


@pytest.fixture
def here(study, monkeypatch):
    monkeypatch.chdir(study)
    return study


def run(*arguments):
    return main([str(argument) for argument in arguments])


def test_a_shuffled_table_gives_the_same_model(here, capsys):
    files = sorted(here.glob("bids/*/*.nii.gz"))
    options = ("--target", "age", "--task", "regression", "--epsilon", "1")
    assert run("fit", "bids", *options, "--out", "right.sltr") == 0
    assert "by its column 'participant_id'." in capsys.readouterr().err
    again = ("--y", "bids.tsv", "--out", "shuffled.sltr")
    assert run("fit", *files, *options, *again) == 0
    assert "'participant_id', in another order." in capsys.readouterr().err
    right, shuffled = load("right.sltr"), load("shuffled.sltr")
    np.testing.assert_array_equal(right.coef_, shuffled.coef_)


def test_predictions_carry_the_names_of_their_images(here, capsys):
    run("fit", "bids", "--target", "age", "--epsilon", "1", "--out", "m.sltr")
    capsys.readouterr()
    assert run("predict", "m.sltr", "new") == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["sample"] for row in rows][:2] == [
        "sub-30_T1w.nii.gz",
        "sub-31_T1w.nii.gz",
    ]
    assert run("predict", "m.sltr", "new", "--json") == 0
    assert json.loads(capsys.readouterr().out)["sample"][0] == "sub-30_T1w.nii.gz"


def test_an_image_that_the_table_lacks_is_named(here, capsys):
    assert run("tune", "bids", "--y", "new.tsv", "--target", "age") == 1
    error = capsys.readouterr().err
    assert "30 of 30 samples have no row in the column 'participant_id'" in error
    lines = (here / "bids.tsv").read_text().splitlines()
    (here / "less.tsv").write_text("\n".join(lines[:-1]) + "\n")
    assert run("tune", "bids", "--y", "less.tsv", "--target", "age") == 1
    missing = lines[-1].split("\t")[0]
    assert f"{missing}_T1w.nii.gz" in capsys.readouterr().err


def test_a_model_of_masked_images_predicts_without_the_mask(here, capsys):
    options = ("--target", "age", "--epsilon", "1", "--mask", "mask.nii.gz")
    assert run("fit", "bids", *options, "--out", "masked.sltr") == 0
    assert load("masked.sltr").coef_.shape == (4, 3, 3)
    capsys.readouterr()
    assert run("predict", "masked.sltr", "new") == 0
    own = capsys.readouterr().out
    assert run("predict", "masked.sltr", "new", "--mask", "mask.nii.gz") == 0
    assert capsys.readouterr().out == own
    assert run("report", "masked.sltr", "bids", "--target", "age") == 0
    assert '"label": "age"' in (here / "report.html").read_text(encoding="utf-8")


def test_a_model_is_drawn_and_exported(here, capsys):
    pytest.importorskip("nilearn")
    run("fit", "bids", "--target", "age", "--mask", "mask.nii.gz", "--out", "e.sltr")
    found = capsys.readouterr().out
    assert "shape" in found
    assert not {"names", "units", "coords"} & set(found.split())  # pictures show them
    assert run("plot", "e.sltr", "brain.png", "--dpi", 50) == 0
    assert (here / "brain.png").read_bytes()[:4] == b"\x89PNG"
    assert run("export", "e.sltr", "coef.nii.gz") == 0
    image = nibabel.load(here / "coef.nii.gz")
    assert image.shape == SHAPE
    np.testing.assert_allclose(image.affine, AFFINE)
    inside = nibabel.load(here / "mask.nii.gz").get_fdata() > 0
    assert not image.get_fdata()[~inside].any()
    assert run("export", "e.sltr", "coef.txt") == 1
    assert "ends in one of" in capsys.readouterr().err
    assert run("plot", "e.sltr", "b.png", "--background", "mask.nii.gz") == 2
