from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# The helpers beside this file, under names of their own: importlib mode adds no folder to the path.
for _name in ("draw", "expressions", "records", "queries", "refusals", "house", "compare", "lab"):
    _spec = importlib.util.spec_from_file_location(
        f"corpora_{_name}", Path(__file__).with_name(f"{_name}.py")
    )
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_spec.name] = _module
    _spec.loader.exec_module(_module)
