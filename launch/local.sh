#!/usr/bin/env bash
# A run on ranks of this machine that goes on where it stopped:
#
#     launch/local.sh RANKS FOLDER [flags of decentorth.run]
#
# The first call begins; the same call again, after a stop or a crash, goes on from the newest checkpoint.
set -euo pipefail
ranks=${1:?how many ranks} out=${2:?a folder for the results}
shift 2
if compgen -G "$out/checkpoints/[0-9]*" > /dev/null; then
  set -- "$@" --resume "$out"
else
  set -- --checkpoint-every "${CHECKPOINT_EVERY:-10m}" "$@" --out "$out"
fi
exec mpirun -n "$ranks" python -m decentorth.run "$@"
