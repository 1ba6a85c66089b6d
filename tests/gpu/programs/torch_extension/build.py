"""Builds the extension as PyTorch does, in the folder named first, and copies it to the file named second."""

import shutil
import sys
from pathlib import Path

from torch.utils.cpp_extension import load

here, folder, output = Path(__file__).parent, sys.argv[1], sys.argv[2]
sources = [str(here / name) for name in ("soften.cu", "binding.cpp")]
load(name="softening", sources=sources, build_directory=folder, is_python_module=False)
shutil.copyfile(Path(folder) / "softening.so", output)
