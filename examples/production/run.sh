#!/usr/bin/env bash
# From a verdict to production, on the virtual GPU: certify a kernel, serve with it, let a bit flip, swap in a wrong
# kernel, and find out whose fault each was. See README.md.
#
# usage: run.sh [--quick] [--stay] [FOLDER]     everything that is made goes to FOLDER; else to a temporary one
#
# --stay leaves assayd running at the end, so that its page can be opened in a browser.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requests=200 quick='' stay=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --quick) requests=60 quick=yes ;;  # as a test: without the check and the certificate
    --stay) stay=yes ;;
    *) sed -n 's/^# usage: //p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
out=${1:-$(mktemp -d)}
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out/state"
if [[ -z ${ASSAY:-} ]]; then
  ASSAY=$here/../../build/release/bin/assay
  [[ -x $ASSAY ]] || ASSAY=$(command -v assay)
fi
bin=$(dirname "$(readlink -f "$ASSAY")") lib=$(dirname "$(readlink -f "$ASSAY")")/../lib
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
include=$(dirname "$(readlink -f "$nvcc")")/../include
step() { printf '\n== %s\n' "$*"; }
fail() { printf 'run.sh: %s\n' "$*" >&2; exit 1; }

certificate=()
if [[ -z $quick ]]; then
  step "A key pair, a check, a certificate"
  openssl genpkey -algorithm ed25519 -out "$out/signer.pem" 2> /dev/null
  openssl pkey -in "$out/signer.pem" -pubout -out "$out/signer.pub.pem"
  "$ASSAY" certify "$here/rmsnorm.toml" --key "$out/signer.pem" -o "$out/rmsnorm.assay.json" \
    --library "$out/librmsnorm.real.so" --budget 15 --no-prove
  certificate=(--certificate "$out/rmsnorm.assay.json" --library "$out/librmsnorm.real.so")
fi

step "A shim in place of the kernel's library; the server links it"
"$ASSAY" shim "$here/rmsnorm.toml" -o "$out/librmsnorm.so" "${certificate[@]}"
c++ -std=c++17 -O1 -I"$include" -o "$out/serve" "$here/serve.cpp" -L"$out" -lrmsnorm -L"$lib" -l:libcudart.so.13 \
  -Wl,-rpath,"$out" -Wl,-rpath,"$lib"
c++ -std=c++17 -O1 -I"$include" -shared -fPIC -o "$out/flip.so" "$here/flip.cpp" -ldl
export LD_LIBRARY_PATH=$lib ASSAYD_SOCKET=$out/assayd.sock

step "assayd watches"
key=()
[[ -n $quick ]] || key=(--key "$out/signer.pub.pem")
"$bin/assayd" --state "$out/state" "${key[@]}" --listen 127.0.0.1:0 > "$out/assayd.log" 2>&1 &
assayd=$!
trap 'kill $assayd 2> /dev/null || true' EXIT
for _ in $(seq 50); do grep -q metrics "$out/assayd.log" && break; sleep 0.1; done
address=$(sed -n 's/.*metrics at \(http[^,]*\),.*/\1/p' "$out/assayd.log")
[[ -n $address ]] || { cat "$out/assayd.log"; fail "assayd did not start"; }
cat "$out/assayd.log"
get() {  # a path of assayd
  local place=${address#http://} line
  place=${place%/metrics}
  exec 3<> "/dev/tcp/${place%:*}/${place#*:}"
  printf 'GET %s HTTP/1.0\r\n\r\n' "$1" >&3
  while read -r line && [[ $line != $'\r' ]]; do :; done <&3
  cat <&3
  exec 3>&-
}
metrics() { get /metrics; }
# The sum of a metric over its labels.
value() { metrics | awk -v name="$1" '$1 == name || index($1, name "{") == 1 { sum += $2 } END { print sum + 0 }'; }
wait_for() { for _ in $(seq 50); do [[ $(value "$1") -ge $2 ]] && return; sleep 0.1; done; metrics; fail "$1 did not reach $2"; }

step "The certified kernel serves"
"$out/serve" $requests
wait_for assay_samples_judged_total 5
[[ $(value assay_alarms) == 0 ]] || { metrics; fail "an alarm about a right kernel"; }
[[ -n $quick || $(value assay_certificate_valid) == 1 ]] || { cat "$out/assayd.log"; fail "the certificate is not valid"; }
echo "judged: $(value assay_samples_judged_total) samples, $(value assay_elements_judged_total) elements; alarms: 0"

step "A bit flips in device memory"
FLIP_COPY=9 LD_PRELOAD=$out/flip.so "$out/serve" $requests
wait_for assay_alarms 1
capture=$(ls "$out"/state/captures/*.assaycap | head -1)
"$ASSAY" replay "$capture" --json "$out/flip.json" || true
grep -q '"fault": "hardware-or-transient"' "$out/flip.json" || fail "the replay names another fault"

step "A wrong kernel is swapped in, without a certificate"
"$ASSAY" shim "$here/rmsnorm_next.toml" -o "$out/next.so" > /dev/null
cp "$out/librmsnorm.real.so" "$out/certified.so"
mv "$out/next.real.so" "$out/librmsnorm.real.so"
"$out/serve" $requests
wait_for assay_alarms 2
[[ -n $quick || $(metrics | grep -c '^assay_certificate_valid.* 0$') == 1 ]] || fail "the certificate is still valid"
build=$(sha256sum "$out/librmsnorm.real.so" | cut -c1-12)
of_build() { metrics | awk -v name="$1{" -v build="$build" 'index($1, name) == 1 && index($1, build) { sum += $2 } END { print sum + 0 }'; }
echo "of this build, $(of_build assay_violations_total) of $(of_build assay_elements_judged_total) elements judged were wrong:" \
  "from the alarm on, the trusted kernel computed"
capture=$(ls -t "$out"/state/captures/*.assaycap | head -1)
"$ASSAY" replay "$capture" --json "$out/next.json" || true
grep -q '"fault": "kernel"' "$out/next.json" || fail "the replay names another fault"

step "The same for a fleet: which builds are wrong, over all GPUs of all machines"
"$ASSAY" fleet "${address%/metrics}" || true

step "What Prometheus sees: some of $address"
metrics > "$out/metrics.txt"
get / > "$out/assayd.html"
grep -e '^assay_alarm{' -e '^assay_certificate_valid{' -e '^assay_violations_total.*bound' -e '^assay_drift' "$out/metrics.txt" |
  sed 's/contract="[^"]*",//; s/gpu="\(GPU-........\)[^"]*"/gpu="\1…"/'

step "Done in $SECONDS s"
cat << END
  $out/assayd.html          the page of assayd as it was: which kernels, which alarms
  $out/metrics.txt          everything that Prometheus sees
  $out/state/alarms/        the alarms
  $out/state/captures/      the captured calls, for assay replay
END
[[ -n $stay ]] || exit 0
printf '\nassayd runs on. Its page: %s/   Stop it with Ctrl-C.\n' "${address%/metrics}"
wait $assayd
