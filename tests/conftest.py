"""How the property tests explore: the suite repeats itself, the long runs do not.

HYPOTHESIS_PROFILE=explore looks elsewhere each time; `make test-slow` does.
"""

from __future__ import annotations

import os

from hypothesis import settings

# A deadline would measure the machine's other work.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))
