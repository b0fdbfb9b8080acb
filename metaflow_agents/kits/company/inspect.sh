# What ruff and ty, a linter and a type checker, say of a program without running it; a line each. Ends with 0 whatever they find.
set -u
where=. && [ ! -d src ] || where=src
ruff check --isolated --no-cache --quiet --target-version py311 --select "$1" --ignore "$2" --output-format concise "$where"
[ $? -le 1 ] || exit 2
ty check --output-format concise "$where"
[ $? -le 1 ] || exit 2
