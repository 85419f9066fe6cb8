#!/bin/sh
# What an installed wheel must do: sh wheel_check.sh PYTHON WHEEL. Run by tools/test-wheel, in a fresh Debian and in virtual
# environments; everything happens in a folder of its own.
set -eu
python=$1 wheel=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "wheel_check: $*" >&2; exit 1; }
seconds() { date +%s.%N; }

begin=$(seconds)
"$python" -m venv venv
PATH=$work/venv/bin:$PATH
pip install --quiet --disable-pip-version-check "$wheel"
installed=$(seconds)
varve train lenet5 epochs=1 data.train=2000 data.test=500 runs=runs --quiet > /dev/null
trained=$(seconds)
echo "$("$python" --version): installed in $(echo "$begin $installed" | awk '{printf "%.1f", $2 - $1}') s," \
  "trained in $(echo "$installed $trained" | awk '{printf "%.1f", $2 - $1}') s"
echo "$begin $trained" | awk '{exit $2 - $1 >= 60}' || fail "installing and training took a minute or more"

# The command: both spellings, its exit codes, and Ctrl-C.
[ "$(varve --version)" = "$(python -m varve --version)" ] || fail "varve and python -m varve disagree"
varve eval runs/lenet5-1 > /dev/null
varve launch -n 2 train lenet5 epochs=1 data.train=200 data.test=50 runs=ranks > ranks.log 2>&1 || { cat ranks.log; fail "two ranks failed"; }
grep -q "2 ranks, gloo" ranks.log || { cat ranks.log; fail "two ranks were not started"; }
awk 'BEGIN {print "a,b,side"; for (i = 0; i < 300; ++i) {a = (i * 37 % 101) / 101; b = (i * 53 % 97) / 97
  print a "," b "," (a + b > 1 ? "right" : "left")}}' > table.csv
varve train data=table.csv epochs=30 runs=runs --quiet > /dev/null
printf 'a,b\n0.9,0.9\n0.1,0.1\n' > rows.csv
[ "$(varve predict runs/table-1 rows.csv --csv | cut -d, -f2 | tr '\n' ' ')" = "prediction right left " ] || fail "varve predict is wrong"
varve bench step fcn-scaling-1x32 batch=16 threads=1 repeat=1 samples=2 seconds=0 frameworks=varve,varve-python \
  json=records.jsonl > bench.log 2>&1 || { cat bench.log; fail "varve bench failed"; }
[ "$(grep -c '"status": *"ok"' records.jsonl)" = 2 ] || { cat bench.log; fail "varve bench left no record of both"; }
code=0
varve train no-such-network > /dev/null 2>&1 || code=$?
python_code=0
python -m varve train no-such-network > /dev/null 2>&1 || python_code=$?
[ $code -ne 0 ] && [ $code = $python_code ] || fail "a wrong command ended with $code, by python -m varve with $python_code"
code=0
timeout --preserve-status -s INT 4 varve train lenet5 epochs=1000 data.train=2000 data.test=100 runs=runs --quiet \
  > stopped.log 2>&1 || code=$?
[ $code = 130 ] || { cat stopped.log; fail "Ctrl-C ended a training with $code, not 130"; }
[ -d runs/lenet5-2 ] || fail "Ctrl-C left no run"

# The module.
python - << 'PYTHON'
import varve as vv
from varve import data, nn, optim
assert vv.tensor([1.0, 2.0]).sum().item() == 3.0
digits = data.digits(train=500, test=100)
model = nn.Sequential(nn.Conv2d(8, kernel=5, activation="relu"), nn.MaxPool2d(2), nn.Flatten(), nn.Dense(10))
history = model.fit(digits.train, optimizer=optim.Adam(3e-3), epochs=2, batch=64, verbosity="quiet")
assert history.epochs[1]["loss"] < history.epochs[0]["loss"], history.epochs
try:
    vv.set_device("cuda")
    vv.ones((2,)).eval()
except vv.Error as error:
    assert "driver" in str(error) or "varve-dl-cuda13" in str(error), error
PYTHON
ls venv/lib/python*/site-packages/varve_dl-*.dist-info/licenses/bundled/libdnnl* > /dev/null || fail "no licenses of what is inside"
