"""`python -m tests.fuzz N --seed S`, from the root of the repository."""

import sys
from pathlib import Path

# Tests are no package: they import each other by name, as they do under pytest.
sys.path.insert(0, str(Path(__file__).parent))

from cases import main

sys.exit(main())
