"""What has to be set before any test module is imported."""

import os

# Without it, which scipy reads when it is imported, scikit-learn skips a check.
os.environ["SCIPY_ARRAY_API"] = "1"
