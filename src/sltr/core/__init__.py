"""The paper, on arrays alone: the problem of one mode, its solvers, the average."""
