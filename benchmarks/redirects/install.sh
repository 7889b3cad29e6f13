#!/usr/bin/env bash
# Fetches the clients that `python -m benchmarks redirects` asks with, from PyPI, npm and Debian, into a directory.
# Installs nothing into the system. What cannot be had is left out.
set -uo pipefail
directory=${1:-/tmp/tarry-clients}
sources=$(cd "$(dirname "$0")/sources" && pwd)
mkdir -p "$directory/debs" && cd "$directory" || exit 1

python3 -m venv venv && venv/bin/pip install --quiet requests urllib3 aiohttp httpx
echo '{"name": "clients", "version": "1.0.0", "type": "module", "private": true}' >package.json
npm install --silent got superagent axios
cp "$sources/get.mjs" .

cd debs
for package in golang-1.19-go golang-1.19-src firefox-esr libhttpclient5-java libhttpcore5-java libslf4j-java \
    libwww-perl libhttp-message-perl liburi-perl libhttp-date-perl libtry-tiny-perl libnet-http-perl libhtml-parser-perl \
    libhtml-tagset-perl libencode-locale-perl libio-html-perl libfile-listing-perl libhttp-cookies-perl \
    libhttp-negotiate-perl libwww-robotrules-perl libtimedate-perl liblwp-mediatypes-perl libclone-perl \
    libvpx7 libasound2 libevent-2.1-7; do
    ls "$package"_* >/dev/null 2>&1 || apt-get download -q "$package" || echo "without $package"
done
for package in *.deb; do dpkg-deb --extract "$package" ../root; done
cd ..

jars=$(echo root/usr/share/java/{httpclient5,httpcore5,httpcore5-h2,slf4j-api,slf4j-nop}.jar | tr ' ' ':')
mkdir -p classes
javac -d classes "$sources/Get.java"
javac -cp "$jars" -d classes "$sources/GetApache.java"
GOROOT=$directory/root/usr/lib/go-1.19 GOCACHE=$directory/go-cache GO111MODULE=off \
    root/usr/lib/go-1.19/bin/go build -o go-get "$sources/get.go"
