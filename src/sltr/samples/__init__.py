"""The samples, wherever they are: user input made clean, and the products with X."""
