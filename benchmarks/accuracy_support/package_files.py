"""Data files inside published packages, without installing or importing these.

What `aeon` and `tslearn` depend on does not go with the versions that skattn is tested
with, and nothing of theirs is needed but their data.
"""

import importlib.util
import os
import zipfile
from pathlib import Path

#: Where `pip download` puts the packages, unless the environment variable says so.
FOLDER = Path(os.environ.get("SKATTN_WHEELS", Path(__file__).parent / "wheels"))

#: The versions that were measured.
REQUIREMENTS = {
    "aeon": "aeon==1.6.0",
    "tslearn": "tslearn==0.10.0",
    "wordllama": "wordllama==0.4.0.post1",
}


def read_package_file(path):
    """Return the bytes of a file in a package, installed or downloaded as a wheel.

    Parameters
    ----------
    path : str
        The file, from the name of its package on.

    Returns
    -------
    content : bytes
    """
    package, _, inside = path.partition("/")
    for wheel in sorted(FOLDER.glob(f"{package}-*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(path)
    specification = importlib.util.find_spec(package)
    if specification is not None:
        return (Path(specification.origin).parent / inside).read_bytes()
    raise FileNotFoundError(
        f"{path} is in the package {package}, which is neither installed nor in "
        f"{FOLDER}. Download it: pip download --no-deps -d {FOLDER} "
        f"{REQUIREMENTS[package]}"
    )
