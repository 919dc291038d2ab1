#!/usr/bin/env bash
# The measurements of docs/measurements/train.md that need a GPU or many cores.
#
#     bench/train/h200.sh prepare [BUILD]     here: the programs of a build (build/release) and their libraries into build/carried.tar.gz
#     bench/train/h200.sh story               there: on a machine with a GPU, nvcc and torch; at most 8 minutes
#     bench/train/h200.sh sweep               there: what the story's gap and noise depend on; at most 3 minutes
#     bench/train/h200.sh right [SECONDS [FIRST]]   there: right kernels of the host, 100 runs of each slot from the seed FIRST on, on 16 cores, and beside it
#                                             a whole matrix on two of them; 5 minutes
#     bench/train/h200.sh corpus [SECONDS [FIRST]]  there: correct kernels of the corpus, 100 runs of each slot, on 16 cores; 4 minutes
#     bench/train/h200.sh wrong [SECONDS [JSON]]  there: the numeric bugs of the corpus and the cells that unmask them, on 16 cores; 4 minutes.
#                                             JSON: the file of an earlier run, which is taken up: only what it does not have is run
#     bench/train/h200.sh alarms              there: false alarms and the corpus, on many cores; at most 9 minutes
#
# Results go to the folder $OUT (default: .), with a log on the terminal.
set -u
cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." || exit 2
carried=build/carried
out=${OUT:-.}
begun=$SECONDS

copy_libraries() {
  local library
  ldd "$1" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do
    case $(basename "$library") in
      libc.so* | libm.so* | libstdc++.so* | libgcc_s.so* | ld-linux* | libcudart.so*) ;;
      *) cp -L "$library" "$2/" ;;
    esac
  done
}

prepare() {
  local build=${1:-build/release} file
  rm -rf $carried
  mkdir -p $carried/bin $carried/lib $carried/system
  for file in assay assay-worker bench_right_kernels; do
    [[ $file != bench_right_kernels || -e $build/bench/$file || -e $build/bin/$file ]] || continue  # of the preset bench; `alarms` needs it
    install -s "$build/$( [[ -e $build/bin/$file ]] && echo bin || echo bench )/$file" $carried/bin/ || exit 2
  done
  cp "$build/lib/libcudart.so.13" $carried/lib/
  # What another system may lack; its own C library and GPU driver are used. Those of the worker lie beside the virtual runtime, where
  # it looks; those of the command apart from it, so that a worker on a real GPU finds NVIDIA's runtime.
  copy_libraries $carried/bin/assay-worker $carried/lib
  copy_libraries $carried/lib/libcudart.so.13 $carried/lib
  copy_libraries $carried/bin/assay $carried/system
  for file in assay bench_right_kernels; do
    printf '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\nLD_LIBRARY_PATH=$here/system exec "$here/bin/%s" "$@"\n' $file > $carried/$file
    chmod +x $carried/$file
  done
  tar -czf $carried.tar.gz $carried
  du -sh $carried $carried.tar.gz
}

# What tests/gpu/pack packed does as well.
unpack() {
  [[ -x $carried/assay || ! -x build/gpu/assay ]] || carried=build/gpu
  [[ -x $carried/assay ]] || tar -xzf $carried.tar.gz || exit 2
}

elapsed() {
  echo "--- $1: $((SECONDS - begun)) s since the start"
}

story() {
  unpack
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  nproc
  # The kernels in plain PyTorch.
  timeout 270 python3 -u bench/train/story.py --json "$out/story.json" --seconds 170
  elapsed "plain PyTorch"
  # The same kernels on the GPU, everything else by the trusted code on the host; as many tokens a step as in the story.
  local full=(--sequences 256 --device cuda --fresh --steps 10)
  timeout 200 $carried/assay train examples/embedding_gradient/wrong.toml "${full[@]}" --json "$out/cuda_wrong.json"
  elapsed "assay train --device cuda wrong.toml"
  timeout $((510 - (SECONDS - begun))) $carried/assay train examples/embedding_gradient/right.toml "${full[@]}" --optimizers sgd --json "$out/cuda_right.json"
  elapsed "assay train --device cuda right.toml"
}

sweep() {
  timeout 178 python3 -u bench/train/story.py --sweep --seconds 140 --json "$out/story_sweep.json"
}

# Small models, many seeds: every run has weights and batches of its own.
right() {
  unpack
  local cores=$(nproc) seconds=${1:-250}
  (
    exec > "$out/matrix.log" 2>&1
    time timeout $((seconds + 30)) taskset -c 0,1 $carried/assay train examples/embedding_gradient/wrong.toml --fresh
  ) &
  taskset -c "2-$((cores - 1))" $carried/bench_right_kernels "${2:-1}-100" $((cores - 2)) "$seconds" > "$out/right_host.md" 2>&1
  cat "$out/right_host.md"
  elapsed "right kernels of the host"
  wait
  cat "$out/matrix.log"
  elapsed "a whole matrix on two cores"
}

corpus() {
  unpack
  local small="--vocabulary 128 --width 32 --heads 2 --layers 1 --sequence 32"
  python3 bench/train/corpus.py --assay "$PWD/$carried/assay" --jobs "$(nproc)" right --by-slot --first-seed "${2:-1}" --seeds 100 --steps 6 \
    --tokens zipf --optimizers sgd,adamw --sizes "$small" --seconds "${1:-220}" --json "$out/right.json" > "$out/right.md" 2>&1
  cat "$out/right.md"
  elapsed "correct kernels of the corpus"
}

wrong() {
  unpack
  if [ -n "${2:-}" ]; then cp -- "$2" "$out/wrong.json" || return; fi
  python3 bench/train/corpus.py --assay "$PWD/$carried/assay" --jobs "$(nproc)" wrong --seconds "${1:-225}" --json "$out/wrong.json" --resume > "$out/wrong.md" 2>&1
  cat "$out/wrong.md"
  elapsed "numeric bugs of the corpus"
}

# A whole matrix at default size on two cores.
matrix() {
  local name=$1 cores=$2
  shift 2
  (
    exec > "$out/matrix_$name.log" 2>&1
    timeout 500 taskset -c "$cores" $carried/assay train "$@" --fresh --json "$out/matrix_$name.json"
    echo "status $?"
  ) &
}

alarms() {
  unpack
  if (($(nproc) < 16)); then
    echo "this needs 16 cores" >&2
    exit 2
  fi
  matrix attention 0,1 corpus/attention/contract.toml
  matrix gemm 2,3 corpus/gemm/contract.toml
  (
    exec > "$out/right_host.md" 2>&1
    taskset -c 4-7 $carried/bench_right_kernels 50 4 490
  ) &
  local corpus=(taskset -c 8-15 python3 bench/train/corpus.py --assay "$PWD/$carried/assay" --jobs 8)
  "${corpus[@]}" wrong --seconds 400 --json "$out/corpus_wrong.json" > "$out/corpus_wrong.md" 2>&1
  elapsed "wrong kernels of the corpus"
  "${corpus[@]}" right --seeds 10 --seconds $((500 - (SECONDS - begun))) --json "$out/corpus_right.json" > "$out/corpus_right.md" 2>&1
  elapsed "correct kernels of the corpus"
  wait
  # Few files come back: those that are only read go into the log.
  tail -n 25 "$out"/matrix_*.log
  grep -v "| 0 | 0 |" "$out"/right_host.md
  tar -C "$out" -czf "$out/alarms.tar.gz" --remove-files $(cd "$out" && ls *.json *.log *.md)
  elapsed "everything"
}

case ${1:-} in
  prepare | story | sweep | right | corpus | wrong | alarms) "$@" ;;
  *) sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
