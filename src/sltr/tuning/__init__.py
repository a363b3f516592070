"""Which settings predict best: candidates, held-out predictions, choice, final fit."""
