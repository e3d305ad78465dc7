#!/usr/bin/env bash
# Builds a stand-in for the image apache/kafka on a machine that can reach Maven but no container registry. The broker inside is
# the released one, jar for jar; only what surrounds it (file tree, start script) is ours. Never replaces an image that is there.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
image=apache/kafka:4.4.0
# By this label a stand-in is told from the genuine image.
label=transom.stand-in

if docker image inspect "$image" >/dev/null 2>&1; then
    echo "image $image is already there, nothing to build" >&2
    exit 0
fi

libs=$("$here/../kafka/fetch.sh")
java_home=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p')
tree=$(mktemp -d)
trap 'rm -rf -- "$tree"' EXIT

mkdir -p "$tree"/{bin,etc/kafka/docker,tmp,proc,dev,sys,opt/kafka/{libs,config},usr/bin,var/lib/kafka/data}
chmod 1777 "$tree/tmp"
cp "$libs"/*.jar "$tree/opt/kafka/libs/"
install -m 755 "$here/run" "$tree/etc/kafka/docker/run"
echo 'root:x:0:0:root:/:/bin/bash' >"$tree/etc/passwd"
echo 'root:x:0:' >"$tree/etc/group"
echo 'hosts: files dns' >"$tree/etc/nsswitch.conf"

# A trimmed runtime when the JDK is whole, otherwise the installed one as it is.
if [[ -d $java_home/jmods ]] && command -v "$java_home/bin/jlink" >/dev/null; then
    "$java_home/bin/jlink" --add-modules java.se,jdk.unsupported,jdk.management,jdk.crypto.ec,jdk.zipfs,jdk.security.auth \
        --strip-java-debug-attributes --no-man-pages --no-header-files --output "$tree/opt/java"
    # The class archive makes a cold start about half a second quicker; a runtime without one works as well.
    "$tree/opt/java/bin/java" -Xshare:dump >/dev/null 2>&1 || true
else
    cp -aL "$java_home" "$tree/opt/java"
fi

# bash and sh for start scripts (Testcontainers overrides the command with one), the rest for looking around inside.
tools=(bash env cat chmod cp date grep id kill ls mkdir ps rm sed sleep tail)
for tool in "${tools[@]}"; do
    # `type -P`: bash has kill as a builtin, the file is wanted.
    if path=$(type -P "$tool"); then
        cp -L "$path" "$tree/usr/bin/$tool"
    fi
done
cp "$tree/usr/bin/bash" "$tree/bin/bash"
ln -s bash "$tree/bin/sh"
ln -s /opt/java/bin/java "$tree/usr/bin/java"

# Every shared library that any of these binaries names, at the path where the loader looks for it. Libraries of the desktop
# (fonts, sound) are not found on a headless machine; the broker never loads them.
{
    find "$tree/usr/bin" -type f
    find "$tree/opt/java" -type f \( -name '*.so' -o -path '*/bin/java' \)
} | xargs -n 1 ldd 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) (.*/\1/p; s/^\s*\(\/[^ ]*\) (.*/\1/p' | sort -u |
    while read -r library; do
        case $library in "$tree"/*) continue ;; esac
        mkdir -p "$tree$(dirname "$library")"
        cp -L "$library" "$tree$library"
    done

# The genuine image starts by CMD with no ENTRYPOINT; a caller's own command or entrypoint then replaces it as usual.
tar -C "$tree" --owner=0 --group=0 --numeric-owner -c . | docker import \
    --change 'ENV PATH=/usr/bin:/bin:/opt/java/bin JAVA_HOME=/opt/java' \
    --change 'WORKDIR /' \
    --change 'EXPOSE 9092' \
    --change 'CMD ["/etc/kafka/docker/run"]' \
    --change "LABEL $label=true" \
    - "$image" >&2
echo "built the stand-in $image" >&2
