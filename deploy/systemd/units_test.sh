#!/usr/bin/env bash
# The units say nothing that systemd doesn't understand, keep their hardening
# (an exposure of 2.5 of 10 at most), and keep what peer credentials need; the
# users and folders can be made.
set -euo pipefail
cd deploy/systemd
readonly MAX_EXPOSURE=25 # systemd-analyze counts tenths
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
failed=0

fail() {
  echo "FAIL: $*" >&2
  failed=1
}

# Only /usr/bin/tvarantd is not here.
for unit in tvarantd.service tvarantd@.service tvarantd.socket; do
  sed 's#=/usr/bin/tvarantd#=/bin/true#' "$unit" >"$folder/$unit"
done

# verify UNIT: prints what systemd has to say. Its exit status is 0 for unknown
# keys, so what counts is silence.
verify() {
  (cd "$folder" && systemd-analyze verify --man=no "./$1" 2>&1) || true
}
for unit in tvarantd.service tvarantd@0.service tvarantd.socket; do
  said="$(verify "$unit")"
  [[ -z $said ]] || fail "verify $unit: $said"
done
# The question can be answered with no.
sed 's/^ProtectHome=/ProtectHouse=/' "$folder/tvarantd.service" \
  >"$folder/wrong.service"
[[ -n "$(verify wrong.service)" ]] || fail "verify finds no wrong key"

secure() {
  systemd-analyze security --no-pager --offline=true \
    --threshold="$MAX_EXPOSURE" "$folder/$1"
}
for unit in tvarantd.service tvarantd@.service; do
  secure "$unit" >"$folder/report" 2>&1 ||
    fail "security $unit: $(tail -n 1 "$folder/report")"
  grep -o 'Overall.*[0-9]\.[0-9]' "$folder/report" || fail "no report of $unit"
  if grep -q '^PrivateUsers=' "$unit"; then
    fail "$unit: PrivateUsers hides who the clients are"
  fi
done
printf '[Service]\nExecStart=/bin/true\n' >"$folder/open.service"
if secure open.service >/dev/null 2>&1; then
  fail "security finds nothing in an open unit"
fi

root="$folder/root"
mkdir -p "$root/etc"
systemd-sysusers --root="$root" "$PWD/tvarant.sysusers"
for name in tvarant tvarant-admin render; do
  grep -q "^$name:" "$root/etc/group" || fail "sysusers makes no group $name"
done
grep -q '^tvarant:' "$root/etc/passwd" || fail "sysusers makes no user tvarant"
systemd-tmpfiles --root="$root" --create "$PWD/tvarant.tmpfiles"
[[ -d $root/run/tvarant ]] || fail "tmpfiles makes no folder"

exit $failed
