#!/usr/bin/env bash
# Makes what mutual TLS needs: an authority, the daemon's certificate and one
# for each client, whose name is the user that the daemon sees.
#
#   deploy/certificates.sh DIR HOST[,HOST...] [USER...]
#
# Hosts are names or addresses by which clients reach the daemon. What is in DIR
# already stays, so users can be added later. Keys are readable by their owner
# alone. See docs/remote.md.
set -euo pipefail

if [[ $# -lt 2 ]]; then
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 64
fi
dir=$1
hosts=$2
shift 2
days=825
umask 077
mkdir -p "$dir"
cd "$dir"

# sign NAME SUBJECT EXTENSIONS: NAME.key and NAME.pem, signed by the authority.
sign() {
  local name=$1 subject=$2 extensions=$3
  [[ -e $name.pem ]] && return
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -subj "/CN=$subject" -keyout "$name.key" -out "$name.csr" 2>/dev/null
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial \
    -days "$days" -sha256 -extfile <(printf '%s\n' "$extensions") \
    -out "$name.pem" 2>/dev/null
  rm -f "$name.csr"
}

if [[ ! -e ca.pem ]]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
    -days "$days" -subj "/CN=tvarant authority" \
    -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout ca.key -out ca.pem 2>/dev/null
fi

names=
IFS=, read -r -a list <<<"$hosts"
for host in "${list[@]}"; do
  if [[ $host =~ ^[0-9.]+$ || $host == *:* ]]; then
    names+=",IP:$host"
  else
    names+=",DNS:$host"
  fi
done
sign daemon "${list[0]}" "subjectAltName=${names#,}
extendedKeyUsage=serverAuth"

for user in "$@"; do
  sign "$user" "$user" "extendedKeyUsage=clientAuth"
done
