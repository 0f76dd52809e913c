#!/usr/bin/env bash
# From a fresh clone to a network training on the device: installs what is
# missing, builds, installs the wheel, trains the digits classifier, embeds a few
# sentences. Safe to run again; a second run only rebuilds what changed.
set -euo pipefail
cd "$(dirname "$0")/.."

bash deploy/install_deps.sh
bash deploy/build.sh
# shellcheck source=deploy/python_env.sh
source deploy/python_env.sh

printf '\n== Digits on tvarant\n'
"$PYTHON" deploy/quickstart/digits.py "$@"
printf '\n== Sentences on tvarant\n'
"$PYTHON" deploy/quickstart/sentences.py
printf '\nThe device works. Try it: %s -c '"'"'import torch; print(torch.ones(2, device="tvarant"))'"'"'\n' "$PYTHON"
