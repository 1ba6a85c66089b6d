"""Corrects an image with the library named first; with "nested" a Python of its own does it as well."""

import ctypes
import subprocess
import sys


def correct(path: str) -> float:
    n = 1 << 20
    image = (ctypes.c_float * n)(*([0.25, 0.5, 0.75, 1.0] * (n // 4)))
    result = (ctypes.c_float * n)()
    status = ctypes.CDLL(path).correct_image(image, result, n)
    if status != 0:
        sys.exit(f"CUDA error {status}")
    return sum(result[:4])


if __name__ == "__main__":
    if "nested" in sys.argv:
        subprocess.run([sys.executable, __file__, sys.argv[1]], check=True)
    sys.stdout.write(f"{correct(sys.argv[1]):.4f}\n")
