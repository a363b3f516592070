"""Write the tables of methods.md from the registry."""

from pathlib import Path

from sltr.peers.registry import comparison

PAGE = Path(__file__).parent / "methods.md"
BEGIN = "<!-- begin: written from the registry -->\n"
END = "<!-- end -->\n"


def page(text: str) -> str:
    """Return the page with its tables as the registry has them."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{comparison()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
