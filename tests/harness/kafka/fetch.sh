#!/usr/bin/env bash
# Puts the broker's jars into target/kafka/libs, once. Prints that directory on stdout, everything else on stderr.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
libs=$root/target/kafka/libs

# A newer pom means another version: fetch again rather than test on yesterday's broker.
if [[ -d $libs && $libs -nt $here/pom.xml ]]; then
    echo "$libs"
    exit 0
fi
if ! command -v mvn >/dev/null; then
    echo "mvn not found: install Maven (Debian: apt-get install maven)" >&2
    exit 69
fi

# Several test programs may start at once: each fetches into its own directory under a lock, and a rename publishes the whole.
mkdir -p "$root/target/kafka"
exec 9>"$root/target/kafka/lock"
flock 9
if [[ ! -d $libs || ! $libs -nt $here/pom.xml ]]; then
    fresh=$(mktemp -d "$root/target/kafka/fetch.XXXXXX")
    trap 'rm -rf -- "$fresh"' EXIT
    # The lock must not be inherited: a daemon left behind by a tool would hold it for ever.
    mvn --quiet --batch-mode --file "$here/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$fresh/libs" >&2 9>&-
    rm -rf -- "$libs"
    mv "$fresh/libs" "$libs"
    touch "$libs"
fi
echo "$libs"
