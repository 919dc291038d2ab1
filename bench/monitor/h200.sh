#!/usr/bin/env bash
# What the monitor costs on a GPU (docs/measurements/monitor.md).
#
#     bench/monitor/h200.sh prepare [BUILD]    here: what `run` needs from a build (build/release), in build/monitor.tar.gz
#     build/monitor/bench/monitor/h200.sh run  there, after unpacking it, on a machine with a GPU, nvcc and python3: the whole
#                                              table, in less than 4 minutes
#     … run try                                instead: the same rows with tiny tensors on the virtual GPU, to try this script
#     … run faults                             instead: a broken GPU, a wrong call, a certificate of both devices; 2 minutes
#     bench/monitor/h200.sh table FILE         overhead.csv as the table of the docs
#
# Results go to the folder $OUT (default: .): overhead.csv, table.md, metrics.txt, log.txt; of faults replay.txt, hardware.txt,
# certificate.txt.
set -u
SECONDS=0
out=$(readlink -f "${OUT:-.}")  # both before the folder changes
file=$(readlink -f "${2:-overhead.csv}")
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 2
carried=build/monitor
most_seconds=225  # of `run`, so that it ends within 4 minutes

libraries_of() {
  ldd "$1" | awk '$3 ~ /^\// { print $3 }' | grep -v -e 'libc\.so' -e 'libm\.so' -e libstdc++ -e libgcc_s -e ld-linux -e libcudart
}

prepare() {
  local build=${1:-build/release} file
  rm -rf $carried
  mkdir -p $carried/bin $carried/lib $carried/system
  for file in assay assay-worker assayd; do install -s "$build/bin/$file" $carried/bin/ || exit 2; done
  install -s "$build/lib/libassay_monitor.so" $carried/lib/ || exit 2
  cp "$build/lib/libcudart.so.13" $carried/lib/
  # The worker finds its libraries beside the virtual runtime; the others get theirs from a folder without it.
  libraries_of $carried/bin/assay-worker | xargs -r cp -L -t $carried/lib
  for file in bin/assay bin/assayd lib/libassay_monitor.so; do libraries_of $carried/$file | xargs -r cp -L -t $carried/system; done
  # What `run` reads: the package is enough by itself.
  for file in bench/monitor/{h200.sh,overhead.cu,scale.cu} include/assay_monitor.h tests/commands/inputs/scale.{toml,ptx}; do
    install -D "$file" "$carried/$file"
  done
  tar -czf $carried.tar.gz $carried
  du -sh $carried.tar.gz
}

# A GPU that is wrong again, as far as a replay can tell: a library whose machine code is not that of its PTX.
whose_fault() {
  local folder=$1 nvcc=$2 tools
  tools=$(dirname "$(readlink -f "$nvcc")")
  mkdir -p "$folder/fault" && cp tests/commands/inputs/scale.toml "$folder/fault/"
  (cd "$folder/fault" || exit
   sed -e 's/^source.*/source = "scale.cu"/' -e '/^global/d; /^grid/d; /^block/d' -i scale.toml
   sed -e 's/^args.*/entry = "scale"\nargs = ["x", "y", "n", "stream"]/' -i scale.toml
   for factor in 2 3; do
     sed "s/FACTOR/$factor/" > $factor.cu << 'END'
__global__ void scale_kernel(const float* x, float* y, int n) { const int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = FACTOR * x[i]; }
extern "C" void scale(const float* x, float* y, int n, cudaStream_t stream) { scale_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n); }
END
   done
   cp 2.cu scale.cu
   "$nvcc" -arch=sm_90 -cubin -o wrong.cubin 3.cu
   "$nvcc" -arch=sm_90 -cudart shared -shared -Xcompiler -fPIC --keep --keep-dir . -o whole.so 2.cu
   "$tools/fatbinary" -64 --create=2.fatbin --image3=kind=elf,sm=90,file=wrong.cubin --image3=kind=ptx,sm=90,file=2.ptx --embedded-fatbin=2.fatbin.c
   g++ -D__CUDA_ARCH_LIST__=900 -O1 -fPIC -shared -I"$tools/../include" -o libscale.so 2.cudafe1.cpp -L"$tools/../lib64" -lcudart)
  [[ -s $folder/fault/libscale.so ]] || { echo "no library whose machine code differs from its PTX could be built"; return; }
  python3 - "$folder/fault" << 'END'
import struct, sys
def npy(path, values):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }".ljust(118) % len(values)
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + struct.pack("<%df" % len(values), *values))
import os
for name, values in (("in/x.npy", [1, 2, 3, 4]), ("out/y.npy", [3, 6, 9, 12])):
    os.makedirs(os.path.dirname(sys.argv[1] + "/" + name), exist_ok=True)
    npy(sys.argv[1] + "/" + name, values)
END
  $carried/bin/assay judge "$folder/fault/scale.toml" --inputs "$folder/fault/in" --outputs "$folder/fault/out" --library "$folder/fault/libscale.so" \
    --capture "$folder/fault/call.assaycap" > /dev/null
  timeout 60 $carried/bin/assay replay "$folder/fault/call.assaycap" --device cuda | tee "$out/hardware.txt"
}

certificate() {
  local folder=$1
  openssl genpkey -algorithm ed25519 -out "$folder/key.pem" 2> /dev/null && openssl pkey -in "$folder/key.pem" -pubout -out "$folder/key.pub.pem"
  timeout 60 $carried/bin/assay certify tests/commands/inputs/scale.toml --key "$folder/key.pem" -o "$folder/scale.json" --device virtual --device cuda \
    --budget 6 --no-prove | tail -3
  echo 'devices = ["virtual", "cuda"]' > "$folder/policy.toml"
  $carried/bin/assay verify "$folder/scale.json" --key "$folder/key.pub.pem" --policy "$folder/policy.toml" | tee "$out/certificate.txt"
}

# Compiles the benchmark and starts assayd. Sets $folder, $nvcc and $assayd.
begin() {
  folder=$(mktemp -d)
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || echo "no GPU"
  cp bench/monitor/scale.cu "$folder/"
  local libraries
  libraries=$(dirname "$(readlink -f "$nvcc")")/../lib64
  export LD_LIBRARY_PATH=$PWD/$carried/system:${LD_LIBRARY_PATH:-}:$libraries
  mkdir "$folder/lib"
  cp $carried/lib/libassay_monitor.so "$folder/lib/"  # apart from the virtual runtime
  "$nvcc" -std=c++17 -O3 -arch=sm_90 -cudart shared -Iinclude -o "$folder/overhead" bench/monitor/overhead.cu \
    bench/monitor/scale.cu -L"$folder/lib" -lassay_monitor -Xlinker -rpath -Xlinker "$folder/lib" \
    -Xlinker -rpath -Xlinker "$libraries" || exit 2
  export ASSAYD_SOCKET=$folder/s
  $carried/bin/assayd --state "$folder/state" --listen 127.0.0.1:9464 > "$out/log.txt" 2>&1 &
  assayd=$!
  sleep 1
}

finish() {
  python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:9464/metrics").read().decode())' > "$out/metrics.txt"
  kill $assayd
  tail -5 "$out/log.txt"
  echo "--- $SECONDS s"
}

overhead() {
  begin
  local seconds=$((most_seconds - SECONDS))
  [[ ${1:-} == try ]] && seconds=try && export LD_LIBRARY_PATH=$PWD/$carried/lib:$LD_LIBRARY_PATH ASSAY_CHECK=none
  timeout $((most_seconds + 5)) "$folder/overhead" "$folder" $seconds 2>> "$out/log.txt" > "$out/overhead.csv"
  finish
  table "$out/overhead.csv" | tee "$out/table.md"
  awk '/^assay_samples_dropped_total/ { split($1, part, "reason=\""); sub(/".*/, "", part[2]); sum[part[2]] += $2 }
       END { for (reason in sum) if (sum[reason]) print "dropped as " reason ": " sum[reason] }' "$out/metrics.txt"
  grep -e '^assay_alarms ' -e '^assay_.*violations_total.*[1-9]$' "$out/metrics.txt"
}

# An alarm, a capture, and a replay on both devices: the kernel is right on both, so the fault is transient.
faults() {
  begin
  timeout 30 "$folder/overhead" "$folder" wrong || echo "the wrong call was not sampled"
  ls "$folder/state/alarms"
  timeout 60 $carried/bin/assay replay "$folder"/state/captures/*.assaycap --device cuda | tee "$out/replay.txt"
  whose_fault "$folder" "$nvcc"
  certificate "$folder"
  finish
}

# A cell: the median of the rounds (the least one), and how many of the samples were copied, the others having been dropped.
table() {
  python3 - "$1" << 'END'
import csv, sys
lines = open(sys.argv[1]).read().splitlines()
rows = list(csv.DictReader(line for line in lines if line and not line.startswith("#")))
sizes = sorted({int(row["bytes"]) for row in rows})
def text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"
def table(head, keys, cell):
    print("\n| " + " | ".join(head + [text(size) for size in sizes]) + " |\n|" + " --- |" * (len(head) + len(sizes)))
    for key in dict.fromkeys(tuple(row[name] for name in keys) for row in rows):
        cells = {int(row["bytes"]): cell(row) for row in rows if tuple(row[name] for name in keys) == key}
        if any(cells.values()):
            print("| " + " | ".join([name.replace(";", ",") for name in key] + [cells.get(size, "") for size in sizes]) + " |")
def copied(row):
    return f"{int(row['samples']) - int(row['dropped'])} of {row['samples']}"
table(["calls", "mode", "sampled, one in"], ["calls", "mode", "every"],
      lambda row: f"{float(row['more_percent']):.2f} % ({float(row['least_percent']):.2f}); {copied(row)}")
print("\nDevice time of a launch without the monitor, µs:")
table(["calls"], ["calls"], lambda row: f"{float(row['device_us']):.1f}")
print("\nMore device time of a sampled call, µs:")
table(["calls", "mode", "sampled, one in"], ["calls", "mode", "every"],
      lambda row: f"{float(row['sampled_launch_us']):.1f}" if row["calls"] == "eager" and int(row["every"]) < 1000 and row["sampled_launch_us"] else "")
if "sampled_host_us" in rows[0]:
    print("\nHost time of a sampled call in the monitor, µs:")
    table(["calls", "mode", "sampled, one in"], ["calls", "mode", "every"], lambda row: row["sampled_host_us"])
for line in lines:
    if line.startswith("#"):
        print("\n" + line[2:])
END
}

run() {
  if [[ -d bin ]]; then carried=.; else tar -xzf $carried.tar.gz || exit 2; fi
  case ${1:-} in
    '' | try) overhead "${1:-}" ;;
    faults) faults ;;
    *) usage ;;
  esac
}

usage() {
  echo "usage: $0 prepare [BUILD] | run [try | faults] | table FILE" >&2
  exit 2
}

case ${1:-} in
  prepare) shift; prepare "$@" ;;
  run) shift; run "$@" ;;
  table) table "$file" ;;
  *) usage ;;
esac
