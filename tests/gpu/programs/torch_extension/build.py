"""Builds the extension as PyTorch does: build.py FOLDER OUTPUT ARCHITECTURE, the last as sm_90."""

import os
import shutil
import sys
from pathlib import Path

from torch.utils.cpp_extension import load

here, folder, output, architecture = Path(__file__).parent, *sys.argv[1:]
# without it PyTorch asks the driver which card is there
os.environ["TORCH_CUDA_ARCH_LIST"] = f"{architecture[3:-1]}.{architecture[-1]}"
sources = [str(here / name) for name in ("soften.cu", "binding.cpp")]
load(name="softening", sources=sources, build_directory=folder, is_python_module=False)
shutil.copyfile(Path(folder) / "softening.so", output)
