"""Compares the pool on the page of `assay run --html` with PyTorch's caching allocator itself, which runs on the virtual device.

    python3 bench/activity/pool.py TORCH.whl [--sequences 200] [--seed 1]

TORCH.whl is a wheel of PyTorch for CUDA 13 (pip download --no-deps torch); nothing of it is installed. Needs a C++ compiler and the CUDA
toolkit. Prints each sequence of calls for which the two reserve different amounts of memory, and exits with 1 if there is one.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"

REAL = r"""
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdio>
#include <map>
int main() {
  namespace A = c10::cuda::CUDACachingAllocator;
  A::init(1);
  std::map<unsigned long, void*> at;
  char what;
  unsigned long id, bytes;
  while (std::scanf(" %c %lu", &what, &id) == 2) {
    if (what == '-') {
      A::raw_delete(at.at(id));
    } else if (std::scanf("%lu", &bytes) == 1) {
      at[id] = A::raw_alloc(bytes);
    }
  }
  const auto stats = A::getDeviceStats(0);
  std::printf("%ld %ld\n", stats.reserved_bytes[0].peak, stats.requested_bytes[0].peak);
}
"""


def sequence(rng):
    """Calls: ("+", id, bytes) and ("-", id). Small, large and mixed sizes; few or many at once; freed in any order or the last first."""
    # log2 of sizes; around the sizes at which the rules change, one in four.
    low, high = rng.choice([(0, 12), (8, 20), (18, 25), (20, 28), (0, 28)])
    at_once, last_first = rng.choice([3, 10, 40, 150]), rng.random() < 0.3
    edges = [512, 1 << 20, 2 << 20, 10 << 20, 20 << 20]
    live, calls = [], []
    for number in range(1, rng.choice([20, 100, 600]) + 1):
        while live and rng.random() < len(live) / at_once:
            calls.append(("-", live.pop(-1 if last_first else rng.randrange(len(live)))))
        size = int(2 ** rng.uniform(low, high))
        if rng.random() < 0.25:
            size = max(1, rng.choice(edges) + rng.choice([-513, -512, -1, 0, 1, 512]))
        calls.append(("+", number, size))
        live.append(number)
    return calls


def of_the_allocator(program, calls, folder):
    text = "".join(" ".join(map(str, call)) + "\n" for call in calls)
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True,
                          env={"LD_LIBRARY_PATH": f"{folder}/torch/lib:{BUILD}/lib", "ASSAY_QUIET": "1"})
    return tuple(int(word) for word in done.stdout.split())


def of_the_page(calls, folder):
    lines, seconds = [], 0
    for call in calls:
        seconds += 1
        if call[0] == "+":
            lines.append({"event": "allocation", "id": call[1], "address": call[1] << 30, "bytes": call[2], "label": "cudaMallocAsync",
                          "host": False, "stack": 0, "seconds": seconds})
        else:
            lines.append({"event": "release", "id": call[1], "seconds": seconds, "called": seconds, "held": False, "counted": False,
                          "never_written": 0, "never_read": 0, "last_use": 0, "writer": "", "file": "", "line": 0})
    (folder / "events").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = folder / "page.html"
    subprocess.run([BUILD / "bin" / "assay", "events", folder / "events", "--html", page], check=True, capture_output=True)
    text = page.read_text()
    begin = text.index('id="data">') + len('id="data">')
    pool = json.loads(text[begin:text.index("</script>", begin)])["pool"]
    return pool["reserved"], pool["most_in_use"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel")
    parser.add_argument("--sequences", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    differ, shares, count = 0, [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(options.wheel) as wheel:
            wheel.extractall(folder, [one for one in wheel.namelist() if one.startswith(("torch/include/c10/", "torch/include/torch/headeronly/"))
                                      or one in ("torch/lib/libc10.so", "torch/lib/libc10_cuda.so")])
        (folder / "real.cpp").write_text(REAL)
        program = folder / "real"
        subprocess.run(["c++", "-std=c++20", "-O1", "-w", "-I", folder / "torch/include", "-I", "/usr/local/cuda/include", folder / "real.cpp",
                        "-L", folder / "torch/lib", "-lc10_cuda", "-lc10", "-L", BUILD / "lib", "-l:libcudart.so.13", "-o", program], check=True)
        for i in range(options.sequences):
            calls = sequence(rng)
            count += len(calls)
            real, page = of_the_allocator(program, calls, folder), of_the_page(calls, folder)
            shares.append(1 - real[1] / real[0])
            if real != page:
                differ += 1
                print(f"sequence {i} of {len(calls)} calls: the allocator {real}, the page {page}")
    shares.sort()
    print(f"{options.sequences} sequences, {count} calls: {differ} differ in the most bytes reserved or in use; reserved beyond what was in use at most: "
          f"median {100 * shares[len(shares) // 2]:.0f} %, {100 * shares[0]:.0f} to {100 * shares[-1]:.0f} %")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
