"""The SLTR estimators, and what only they need."""
