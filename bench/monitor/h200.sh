#!/usr/bin/env bash
# What the monitor costs on a GPU (docs/measurements/monitor.md).
#
#     bench/monitor/h200.sh prepare [BUILD]    here: the programs of a build (build/release) into build/monitor.tar.gz
#     bench/monitor/h200.sh run                there: on a machine with a GPU and nvcc; at most 4 minutes
#
# Results go to the folder $OUT (default: .): overhead.csv, metrics.txt, replay.txt, log.txt.
set -u
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 2
carried=build/monitor
out=${OUT:-.}

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
  tar -czf $carried.tar.gz $carried
  du -sh $carried.tar.gz
}

run() {
  local nvcc folder assayd begun=$SECONDS
  tar -xzf $carried.tar.gz || exit 2
  folder=$(mktemp -d)
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  cp bench/monitor/scale.cu "$folder/"
  export LD_LIBRARY_PATH=$PWD/$carried/system:${LD_LIBRARY_PATH:-}:$(dirname "$(readlink -f "$nvcc")")/../lib64
  mkdir "$folder/lib"
  cp $carried/lib/libassay_monitor.so "$folder/lib/"  # apart from the virtual runtime
  "$nvcc" -std=c++17 -O3 -arch=sm_90 -cudart shared -Iinclude -o "$folder/overhead" bench/monitor/overhead.cu \
    bench/monitor/scale.cu -L"$folder/lib" -lassay_monitor -Xlinker -rpath -Xlinker "$folder/lib" \
    -Xlinker -rpath -Xlinker "$(dirname "$(readlink -f "$nvcc")")/../lib64" || exit 2
  export ASSAYD_SOCKET=$folder/s
  $carried/bin/assayd --state "$folder/state" --listen 127.0.0.1:9464 > "$out/log.txt" 2>&1 &
  assayd=$!
  sleep 1
  timeout 150 "$folder/overhead" "$folder" 120 2>> "$out/log.txt" | tee "$out/overhead.csv"
  echo "--- $((SECONDS - begun)) s"
  python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:9464/metrics").read().decode())' > "$out/metrics.txt"
  grep -e '^assay_alarms ' -e '^assay_violations_total.*[1-9]$' "$out/metrics.txt"
  ls "$folder/state/alarms"
  # A fault: an alarm, a capture, and a replay on both devices. The kernel is right on both: transient.
  timeout 30 "$folder/overhead" "$folder" wrong || echo "the wrong call was not sampled"
  timeout 60 $carried/bin/assay replay "$(ls "$folder"/state/captures/*.assaycap | head -1)" --device cuda | tee "$out/replay.txt"
  kill $assayd
  tail -5 "$out/log.txt"
  echo "--- $((SECONDS - begun)) s"
}

case ${1:-} in
  prepare) shift; prepare "$@" ;;
  run) run ;;
  *) echo "usage: $0 prepare [BUILD] | run" >&2; exit 2 ;;
esac
